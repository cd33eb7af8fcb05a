package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

const containers = "../../../test/container/"

// buildRdmalink builds the program, and returns its directory.
func buildRdmalink(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	c := exec.Command("go", "build", "-o", dir, "./cmd/rdmalink")
	c.Dir = "../../.."
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

func readYAML(t *testing.T, name string, to any) {
	t.Helper()
	text, err := os.ReadFile(containers + name)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, to); err != nil {
		t.Fatal(name, err)
	}
}

// TestAction runs the steps of the action as a runner does: a script for bash each, with the inputs in the environment.
func TestAction(t *testing.T) {
	t.Parallel()
	var action struct {
		Name, Description string
		Inputs            map[string]struct {
			Description, Default string
			Required             bool
		}
		Runs struct {
			Using string
			Steps []struct {
				Name, Shell, Run string
				Env              map[string]string
			}
		}
	}
	readYAML(t, "action/action.yml", &action)
	if action.Runs.Using != "composite" {
		t.Error(action.Runs.Using)
	}
	path := buildRdmalink(t) + string(filepath.ListSeparator) + os.Getenv("PATH")
	run := func(inputs map[string]string) (string, error) {
		var all []byte
		for _, step := range action.Runs.Steps {
			script := filepath.Join(t.TempDir(), "step.sh")
			if err := os.WriteFile(script, []byte(step.Run), 0o600); err != nil || step.Shell != "bash" {
				t.Fatal(err, step.Shell)
			}
			c := exec.Command("bash", "--noprofile", "--norc", "-eo", "pipefail", script)
			c.Env = append(os.Environ(), "PATH="+path, "GITHUB_PATH="+filepath.Join(t.TempDir(), "path"))
			for name, value := range step.Env {
				for input, o := range action.Inputs {
					given, ok := inputs[input]
					if !ok {
						given = o.Default
					}
					value = strings.ReplaceAll(value, "${{ inputs."+input+" }}", given)
				}
				if strings.Contains(value, "${{") {
					t.Errorf("%s: %s", name, value)
				}
				c.Env = append(c.Env, name+"="+value)
			}
			out, err := c.CombinedOutput()
			if all = append(all, out...); err != nil {
				return string(all), err
			}
		}
		return string(all), nil
	}
	out, err := run(map[string]string{"options": "--device siw  --hosts 2", "run": "cat /sys/class/infiniband/*/node_type\nGOVERBS_HOST=2 ls /sys/class/infiniband; echo '$HOME' \"a  b\""})
	if err != nil || !strings.HasSuffix(out, "4: RNIC\nsiw1\n$HOME a  b\n") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = run(map[string]string{"run": "ls /sys/class/infiniband\nfalse | cat\necho not here"})
	if err == nil || !strings.HasSuffix(out, "rxe0\n") {
		t.Errorf("a command that fails: %v\n%s", err, out)
	}
}

// TestPod decodes the pod with the API's types, checks that it has no privileges and that the init container's image is
// there, and runs the container's command.
func TestPod(t *testing.T) {
	t.Parallel()
	var pod corev1.Pod
	readYAML(t, "pod.yaml", &pod)
	init, c := pod.Spec.InitContainers[0], pod.Spec.Containers[0]
	for _, s := range []*corev1.SecurityContext{init.SecurityContext, c.SecurityContext} {
		if s == nil || *s.AllowPrivilegeEscalation || s.Privileged != nil || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) || s.Capabilities.Add != nil {
			t.Errorf("%+v", s)
		}
	}
	if !*pod.Spec.SecurityContext.RunAsNonRoot || pod.Spec.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("%+v", pod.Spec.SecurityContext)
	}
	program := filepath.Join(c.VolumeMounts[0].MountPath, "rdmalink")
	if init.VolumeMounts[0] != c.VolumeMounts[0] || c.VolumeMounts[0].Name != pod.Spec.Volumes[0].Name || c.Command[0] != program ||
		!slices.Equal(init.Command, []string{"cp", "/rdmalink", filepath.Dir(program) + "/"}) {
		t.Errorf("%+v, %+v", init, c)
	}
	text, err := os.Open(containers + "Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	file, err := parser.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	stages, _, err := instructions.Parse(file.AST, linter.New(&linter.Config{}))
	if err != nil || len(stages) != 2 || stages[0].Name != "init" || stages[1].BaseName != "scratch" {
		t.Fatalf("%+v, %v", stages, err)
	}
	if copied, ok := stages[0].Commands[0].(*instructions.CopyCommand); !ok || copied.DestPath != init.Command[1] {
		t.Errorf("%+v", stages[0].Commands)
	}
	words := slices.Concat(c.Command[1:], c.Args)
	out, err := exec.Command(filepath.Join(buildRdmalink(t), "rdmalink"), words...).CombinedOutput()
	if err != nil || strings.Count(string(out), ":") != 3 {
		t.Errorf("%q: %v\n%s", words, err, out)
	}
}
