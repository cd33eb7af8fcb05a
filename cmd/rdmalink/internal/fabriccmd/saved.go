package fabriccmd

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/goverbs/goverbs/ib/fabric"
)

// maxSaved is the maximum length of a saved discovery, in bytes. A port has some 1,500.
const maxSaved = 1 << 30

// loadFabric reads a discovery from a file. It also returns the time when the file was written.
func loadFabric(path string) (*fabric.Fabric, time.Time, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, time.Time{}, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, time.Time{}, err
	}
	if info.Size() > maxSaved {
		return nil, time.Time{}, fmt.Errorf("%s has %d bytes; a saved discovery has at most %d", path, info.Size(), maxSaved)
	}
	f := new(fabric.Fabric)
	d := json.NewDecoder(io.LimitReader(file, maxSaved))
	err = d.Decode(f)
	if err == nil {
		if _, next := d.Token(); !errors.Is(next, io.EOF) {
			err = errors.New("data follows the discovery")
		}
	}
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("%s is not a discovery that rdmalink fabric discover --cache or -j has saved: %w", path, err)
	}
	return f, info.ModTime(), nil
}

// saveFabric writes a discovery to a file.
func saveFabric(path string, f *fabric.Fabric) error {
	return replaceFile(path, func(w io.Writer) error { return json.NewEncoder(w).Encode(f) })
}

// replaceFile writes a file. A program that reads the file meanwhile, or after a failure, finds the old
// content. The file keeps its permissions. Devices and pipes are written directly.
func replaceFile(path string, write func(io.Writer) error) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	} else if target, err := os.Readlink(path); err == nil { // to a file that doesn't exist yet
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	old, err := os.Stat(path)
	if err == nil && !old.Mode().IsRegular() {
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(write(file), file.Close())
	}
	part := fmt.Sprintf("%s.%08x", path, rand.Uint32())
	file, createErr := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if createErr != nil {
		return createErr
	}
	if err == nil {
		err = file.Chmod(old.Mode().Perm())
	} else if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	if err == nil {
		b := bufio.NewWriter(file)
		err = errors.Join(write(b), b.Flush())
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(part))
	}
	return nil
}
