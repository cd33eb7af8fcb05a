package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
)

// CheckOutput returns an error if the file to write is one of the inputs, whose data the command would overwrite.
// Paths that lead to the same file by links are the same. An input need not exist. An empty name stands for no input.
func CheckOutput(output string, inputs ...string) error {
	to, err := os.Stat(output)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !to.Mode().IsRegular() {
		return nil
	}
	if err != nil {
		return err
	}
	for _, input := range inputs {
		if from, err := os.Stat(input); err == nil && os.SameFile(from, to) {
			return UsageError{Text: fmt.Sprintf("%s is the same file as %s, which is read: it was left as it is; write to another file", output, input)}
		}
	}
	return nil
}

// CreateBeside creates the file that a command writes while the program that words start runs. It returns an
// error if the file is the program, an argument of it, or its standard input.
func CreateBeside(output string, words []string) (*os.File, error) {
	program, _ := exec.LookPath(words[0]) // the failed start will be reported
	if err := CheckOutput(output, append([]string{StandardInput, program}, words[1:]...)...); err != nil {
		return nil, err
	}
	return os.Create(output)
}

// StandardInput is the path of the file that the process reads as its standard input.
const StandardInput = "/dev/stdin"
