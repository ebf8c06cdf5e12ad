package openstack

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// templateOf returns the user data of a template in a ConfigMap or, if it is secret, in a Secret, rendered with a
// token.
func templateOf(t *testing.T, text string, secret bool) (*userData, error) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: "home", Name: "join"}
	key := &v1alpha1.ObjectKey{ObjectName: v1alpha1.ObjectName{Namespace: "home", Name: "join"}, Key: "user-data"}
	spec := &v1alpha1.OpenStackUserData{ConfigMap: key, Values: &v1alpha1.ObjectName{Namespace: "home", Name: "values"}}
	var object client.Object = &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"user-data": text}}
	if secret {
		spec.Secret, spec.ConfigMap = key, nil
		object = &corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"user-data": []byte(text)}}
	}
	values := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "home", Name: "values"}, Data: map[string][]byte{"token": []byte(secretWord), "n": []byte("1")}}
	return readUserData(t.Context(), fake.NewClientBuilder().WithObjects(object, values).Build(), spec)
}

func TestUserDataIsRendered(t *testing.T) {
	of := facts{Name: "batch-1", Fleet: "batch", Flavor: "m1.large", Zone: "nova", Labels: "a=b,c=d", Taints: "x=y:NoSchedule"}
	tests := []struct{ name, text, want string }{
		{"no template", "", ""},
		{"plain text", "#!/bin/sh\n", "#!/bin/sh\n"},
		{"facts", "{{.Name}} {{.Fleet}} {{.Flavor}} {{.Zone}} {{.Labels}} {{.Taints}}", "batch-1 batch m1.large nova a=b,c=d x=y:NoSchedule"},
		{"values", "{{.Values.token}}", secretWord},
		{"conditions", "{{if .Taints}}tainted{{end}}{{with .Zone}} in {{.}}{{end}}", "tainted in nova"},
	}
	for _, tc := range tests {
		for _, secret := range []bool{false, true} {
			u, err := templateOf(t, tc.text, secret)
			if err != nil {
				t.Fatalf("%s: %v", tc.name, err)
			}
			if got, err := u.render(of); err != nil || string(got) != tc.want {
				t.Errorf("%s: %q, %v; want %q", tc.name, got, err, tc.want)
			}
		}
	}
	none, err := readUserData(t.Context(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := none.render(of); got != nil || err != nil {
		t.Errorf("without user data: %q, %v", got, err)
	}
}

func TestWhatIsWrongWithATemplateIsSaidBeforeAServerIsWanted(t *testing.T) {
	tests := []struct{ name, text, says string }{
		{"a template that does not end", "a\n{{.Name", "user-data:2: unclosed action"},
		{"a function that there is none of", "{{hush}}", `function "hush" not defined`},
		{"a fact that there is none of", "{{.Size}}", "can't evaluate field Size"},
		{"a value that is missing", "\n\n{{.Values.tocken}}", `executing "user-data" at <.Values.tocken>: map has no entry for key "tocken"`},
		{"too much", strings.Repeat("x", maxUserData+1), "exceeds the 49149 bytes"},
		{"what has no end", "{{range 9999999999}}x{{end}}", "exceeds the 49149 bytes"},
	}
	for _, tc := range tests {
		_, err := templateOf(t, tc.text, false)
		var refused *provider.Refused
		if !errors.As(err, &refused) || refused.Reason != "UserDataUnusable" || !strings.Contains(refused.Message, tc.says) ||
			!strings.Contains(refused.Message, "ConfigMap home/join, entry user-data") {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.says)
		}
	}
}

func TestATemplateInASecretIsNotRepeated(t *testing.T) {
	for _, text := range []string{"a\n{{" + secretWord, "\n{{" + strings.ReplaceAll(secretWord, "-", "") + "}}", "\n{{.Values.hush}}"} {
		_, err := templateOf(t, text, true)
		if err == nil || strings.Contains(err.Error(), "hush") || !strings.Contains(err.Error(), "line 2 of the template is invalid") ||
			!strings.Contains(err.Error(), "Secret home/join") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestUserDataAsLongAsNovaTakesAreWhole(t *testing.T) {
	u, err := templateOf(t, strings.Repeat("x", maxUserData-2)+"{{len .Name}}", false)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := u.render(facts{Name: "batch-0123"}); err != nil || len(got) != maxUserData || !strings.HasSuffix(string(got), "x10") {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestMissingObjectsAreNamedWithTheFieldThatNamesThem(t *testing.T) {
	spec := &v1alpha1.OpenStackUserData{
		ConfigMap: &v1alpha1.ObjectKey{ObjectName: v1alpha1.ObjectName{Namespace: "home", Name: "join"}, Key: "user-data"},
		Values:    &v1alpha1.ObjectName{Namespace: "home", Name: "values"},
	}
	join := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "home", Name: "join"}, Data: map[string]string{"other": ""}}
	good := join.DeepCopy()
	good.Data["user-data"] = "x"
	tests := []struct {
		name    string
		objects []client.Object
		says    string
	}{
		{"no template", nil, "ConfigMap home/join in spec.openStack.userData.configMap does not exist"},
		{"no such entry", []client.Object{join}, "ConfigMap home/join has no entry user-data of spec.openStack.userData.configMap.key"},
		{"no values", []client.Object{good}, "Secret home/values in spec.openStack.userData.values does not exist"},
	}
	for _, tc := range tests {
		_, err := readUserData(t.Context(), fake.NewClientBuilder().WithObjects(tc.objects...).Build(), spec)
		var refused *provider.Refused
		if !errors.As(err, &refused) || !strings.Contains(refused.Message, tc.says) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.says)
		}
	}
}

// FuzzUserData searches for a template whose error contains a value or, in a Secret, the template itself.
func FuzzUserData(f *testing.F) {
	for _, text := range []string{
		"{{.Values.token}}", "{{index .Values.token 99}}", "{{.Values.token.x}}", "{{call .Values.token}}", "{{index . .Values.token}}",
		"{{template .Values.token}}", "{{slice .Values.token 5 1}}", "{{printf .Values.token 1 2}}", "{{eq 1 .Values.token}}", "{{.Values.token", "{{len 3}}",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "range") || strings.Contains(text, "define") || len(text) > 1000 {
			return // it may run forever; authors of templates could also stop the fleet otherwise
		}
		if _, err := templateOf(t, text, false); err != nil && strings.Contains(err.Error(), secretWord) {
			t.Errorf("%q: %v", text, err)
		}
		if _, err := templateOf(t, secretWord+text, true); err != nil && strings.Contains(err.Error(), secretWord) {
			t.Errorf("%q in a Secret: %v", text, err)
		}
	})
}

func TestFlagsAreWrittenAsTheKubeletReadsThem(t *testing.T) {
	if got := labelsFlag(map[string]string{"b": "2", "a.io/x": "1", "c": ""}); got != "a.io/x=1,b=2,c=" {
		t.Errorf("labels are %q", got)
	}
	taints := []corev1.Taint{{Key: "b", Value: "2", Effect: corev1.TaintEffectNoSchedule}, {Key: "a", Effect: corev1.TaintEffectNoExecute}}
	if got := taintsFlag(taints); got != "b=2:NoSchedule,a=:NoExecute" {
		t.Errorf("taints are %q", got)
	}
	if labelsFlag(nil) != "" || taintsFlag(nil) != "" {
		t.Error("none are not the empty string")
	}
}

// TestTheSampleJoinsByKubeadm renders the user data of manifests/samples and parses it like cloud-init and kubeadm.
func TestTheSampleJoinsByKubeadm(t *testing.T) {
	sample := testfile.Read(t, "../../../manifests/samples/nodefleet-openstack.yaml")
	_, second, _ := strings.Cut(string(sample), "\n---\n")
	var config corev1.ConfigMap
	testfile.StrictYAML(t, second, &config)
	values := map[string][]byte{"endpoint": []byte("10.0.0.1:6443"), "token": []byte("abcdef.0123456789abcdef"), "caCertHash": []byte("sha256:00")}
	kube := fake.NewClientBuilder().WithObjects(&config, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "supercargo-system", Name: "kubeadm-join"}, Data: values}).Build()
	u, err := readUserData(t.Context(), kube, &v1alpha1.OpenStackUserData{
		ConfigMap: &v1alpha1.ObjectKey{ObjectName: v1alpha1.ObjectName{Namespace: config.Namespace, Name: config.Name}, Key: "user-data"},
		Values:    &v1alpha1.ObjectName{Namespace: "supercargo-system", Name: "kubeadm-join"},
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := u.render(facts{Name: "batch-1", Labels: "a=b,c=d"})
	if err != nil || !strings.HasPrefix(string(text), "#cloud-config\n") {
		t.Fatalf("%v: %s", err, text)
	}
	var cloudInit struct {
		Hostname   string
		WriteFiles []struct{ Path, Content, Permissions string } `json:"write_files"`
		RunCmd     []string                                      `json:"runcmd"`
	}
	if err := yaml.UnmarshalStrict(text, &cloudInit); err != nil || cloudInit.Hostname != "batch-1" || len(cloudInit.RunCmd) != 2 {
		t.Fatalf("%v: %s", err, text)
	}
	join := cloudInit.WriteFiles[0].Content
	for _, part := range []string{"token: abcdef.0123456789abcdef", "apiServerEndpoint: 10.0.0.1:6443", "name: batch-1", `"a=b,c=d"`, "openstack:///INSTANCE"} {
		if !strings.Contains(join, part) {
			t.Errorf("%q is not in %s", part, join)
		}
	}
	var joinConfiguration map[string]any
	if err := yaml.UnmarshalStrict([]byte(join), &joinConfiguration); err != nil || joinConfiguration["kind"] != "JoinConfiguration" {
		t.Errorf("%v: %s", err, join)
	}
}
