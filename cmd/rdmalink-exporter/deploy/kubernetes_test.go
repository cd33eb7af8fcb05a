// Package deploy has tests of the exporter's files and of its decoder that need the libraries of Kubernetes and
// BuildKit: a module of its own, so that the exporter's does without them.
package deploy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// constant returns a constant of the program.
func constant(t *testing.T, name string) string {
	t.Helper()
	files, err := filepath.Glob("../*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if m := regexp.MustCompile(`(?m)^(?:const|\t)\s*` + name + `\s+= (".*")$`).FindSubmatch(text); m != nil {
			value, err := strconv.Unquote(string(m[1]))
			if err != nil {
				t.Fatal(err)
			}
			return value
		}
	}
	t.Fatal("no constant ", name)
	return ""
}

// TestKubernetes decodes the files with the API's types, which refuse unknown fields. It also checks
// that names and labels match each other, and that nothing is privileged.
func TestKubernetes(t *testing.T) {
	text, err := os.ReadFile("kubernetes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var namespace corev1.Namespace
	var account corev1.ServiceAccount
	var role rbacv1.Role
	var binding rbacv1.RoleBinding
	var set appsv1.DaemonSet
	for doc := range strings.SplitSeq(string(text), "\n---\n") {
		var kind struct{ APIVersion, Kind string }
		if err := yaml.Unmarshal([]byte(doc), &kind); err != nil {
			t.Fatal(err)
		}
		object, ok := map[string]any{"v1 Namespace": &namespace, "v1 ServiceAccount": &account, "rbac.authorization.k8s.io/v1 Role": &role,
			"rbac.authorization.k8s.io/v1 RoleBinding": &binding, "apps/v1 DaemonSet": &set}[kind.APIVersion+" "+kind.Kind]
		if !ok {
			t.Fatalf("%+v", kind)
		}
		if err := yaml.UnmarshalStrict([]byte(doc), object); err != nil {
			t.Errorf("%s: %v", kind.Kind, err)
		}
	}
	for _, in := range []string{account.Namespace, role.Namespace, binding.Namespace, set.Namespace} {
		if in != namespace.Name || in == "" {
			t.Errorf("namespace %q", in)
		}
	}
	if binding.RoleRef.Name != role.Name || binding.RoleRef.Kind != "Role" || len(role.Rules) != 1 {
		t.Errorf("%+v", binding.RoleRef)
	}
	pod := set.Spec.Template
	for k, v := range set.Spec.Selector.MatchLabels {
		if pod.Labels[k] != v {
			t.Errorf("the selector's label %s is not the pods'", k)
		}
	}
	c := pod.Spec.Containers[0]
	if pod.Spec.ServiceAccountName != account.Name || !pod.Spec.HostPID || !pod.Spec.HostNetwork || *account.AutomountServiceAccountToken ||
		!*pod.Spec.SecurityContext.RunAsNonRoot || *c.SecurityContext.AllowPrivilegeEscalation || !*c.SecurityContext.ReadOnlyRootFilesystem ||
		c.SecurityContext.Privileged != nil || !slices.Equal(c.SecurityContext.Capabilities.Drop, []corev1.Capability{"ALL"}) {
		t.Errorf("%+v", pod.Spec)
	}
	volumes := make(map[string]bool)
	for _, v := range pod.Spec.Volumes {
		volumes[v.Name] = true
	}
	for _, m := range c.VolumeMounts {
		if !volumes[m.Name] || !m.ReadOnly {
			t.Errorf("%+v", m)
		}
	}
	if c.LivenessProbe.HTTPGet.Port.StrVal != c.Ports[0].Name || fmt.Sprintf(":%d", c.Ports[0].ContainerPort) != constant(t, "defaultAddress") {
		t.Errorf("%+v", c.Ports)
	}
	out, err := exec.Command("go", slices.Concat([]string{"-C", "..", "run", "."}, c.Args, []string{"one-word-more"})...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "one-word-more") || !strings.HasSuffix(string(out), "exit status 2\n") {
		t.Errorf("the program refuses %v: %s", c.Args, out)
	}
}

// TestPodResourcesPatch checks that the patch for the podresources API adds the kubelet's directory to the
// container of the DaemonSet, read-only, and changes nothing else but the user.
func TestPodResourcesPatch(t *testing.T) {
	var set, patch appsv1.DaemonSet
	for name, to := range map[string]*appsv1.DaemonSet{"kubernetes.yaml": &set, "podresources.yaml": &patch} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		docs := strings.Split(string(text), "\n---\n")
		if err := yaml.UnmarshalStrict([]byte(docs[len(docs)-1]), to); err != nil {
			t.Fatal(err)
		}
	}
	no, root, kind := false, int64(0), corev1.HostPathDirectory
	directory := filepath.Dir(constant(t, "kubeletSocket"))
	var want appsv1.DaemonSet
	want.Spec.Template.Spec = corev1.PodSpec{
		Containers: []corev1.Container{{
			Name:            set.Spec.Template.Spec.Containers[0].Name,
			SecurityContext: &corev1.SecurityContext{RunAsNonRoot: &no, RunAsUser: &root, RunAsGroup: &root},
			VolumeMounts:    []corev1.VolumeMount{{Name: "pod-resources", MountPath: directory, ReadOnly: true}},
		}},
		Volumes: []corev1.Volume{{Name: "pod-resources", VolumeSource: corev1.VolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: directory, Type: &kind}}}},
	}
	if !reflect.DeepEqual(patch, want) {
		t.Errorf("%+v", patch)
	}
	for _, v := range set.Spec.Template.Spec.Volumes {
		if v.Name == want.Spec.Template.Spec.Volumes[0].Name {
			t.Errorf("the patch replaces %+v", v)
		}
	}
}
