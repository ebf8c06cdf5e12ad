package openstack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/template"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
)

// maxUserData is the maximum number of bytes of user data before encoding: Nova accepts 65535 after it.
const maxUserData = 65535 / 4 * 3

// userData is a template with the values of a Secret. The zero value renders nothing.
type userData struct {
	where    string
	secret   bool // the template itself is in a Secret
	template *template.Template
	values   map[string]string
}

// facts are the inputs of a template.
type facts struct {
	Name, Fleet, Flavor, Zone string
	// Labels and Taints are in the format of the kubelet's flags --node-labels and --register-with-taints.
	Labels, Taints string
	Values         map[string]string
}

// readUserData reads the template and the values of a fleet.
func readUserData(ctx context.Context, live client.Reader, spec *v1alpha1.OpenStackUserData) (*userData, error) {
	if spec == nil {
		return &userData{}, nil
	}
	u := &userData{values: map[string]string{}}
	text, err := u.readTemplate(ctx, live, spec)
	if err != nil {
		return nil, err
	}
	if spec.Values != nil {
		var secret corev1.Secret
		if err := readQuietly(ctx, live, spec.Values.Namespace, spec.Values.Name, &secret); err != nil {
			return nil, unreadable(fmt.Sprintf("Secret %s/%s", spec.Values.Namespace, spec.Values.Name), "spec.openStack.userData.values", err)
		}
		for key, value := range secret.Data {
			u.values[key] = string(value)
		}
	}
	if u.template, err = template.New(templateName).Option("missingkey=error").Parse(text); err != nil {
		return nil, u.refused(err)
	}
	sample := facts{Name: "fleet-00000000-0", Fleet: "fleet", Flavor: "flavor", Zone: "zone", Labels: "key=value", Taints: "key=value:NoSchedule"}
	_, err = u.render(sample) // so that errors are known before a server is needed
	return u, err
}

func (u *userData) readTemplate(ctx context.Context, live client.Reader, spec *v1alpha1.OpenStackUserData) (string, error) {
	ref, kind, field := spec.Secret, "Secret", "spec.openStack.userData.secret"
	var object client.Object = &corev1.Secret{}
	u.secret = ref != nil
	if ref == nil {
		ref, kind, field, object = spec.ConfigMap, "ConfigMap", "spec.openStack.userData.configMap", &corev1.ConfigMap{}
	}
	what := fmt.Sprintf("%s %s/%s", kind, ref.Namespace, ref.Name)
	u.where = fmt.Sprintf("the user data in %s, entry %s", what, ref.Key)
	if err := readQuietly(ctx, live, ref.Namespace, ref.Name, object); err != nil {
		return "", unreadable(what, field, err)
	}
	var text string
	var ok bool
	switch o := object.(type) {
	case *corev1.Secret:
		var data []byte
		data, ok = o.Data[ref.Key]
		text = string(data)
	case *corev1.ConfigMap:
		text, ok = o.Data[ref.Key]
	}
	if !ok {
		return "", &provider.Refused{Reason: v1alpha1.FleetReasonUserDataUnusable, Message: fmt.Sprintf("%s has no entry %s of %s.key", what, ref.Key, field)}
	}
	return text, nil
}

// render returns the user data of a server, nil if there is none.
func (u *userData) render(f facts) ([]byte, error) {
	if u.template == nil {
		return nil, nil
	}
	f.Values = u.values
	var out bounded
	err := u.template.Execute(&out, f)
	switch {
	case errors.Is(err, errTooLong):
		return nil, &provider.Refused{Reason: v1alpha1.FleetReasonUserDataUnusable, Message: fmt.Sprintf(
			"%s exceeds the %d bytes that Nova accepts: let the server download the rest", u.where, maxUserData)}
	case err != nil:
		return nil, u.refused(err)
	}
	return out.text, nil
}

// bounded accepts as much as Nova does. A template may write without end.
type bounded struct{ text []byte }

var errTooLong = errors.New("too long")

// Write implements io.Writer.
func (b *bounded) Write(more []byte) (int, error) {
	if len(b.text)+len(more) > maxUserData {
		return 0, errTooLong
	}
	b.text = append(b.text, more...)
	return len(more), nil
}

// templateName is the name of the template in errors.
const templateName = "user-data"

// inLine matches the line of the template in an error.
var inLine = regexp.MustCompile(regexp.QuoteMeta(templateName) + `:(\d+)`)

// refused describes what is wrong with the template. Errors quote it and may quote values; for secret contents the
// message contains only the line.
func (u *userData) refused(err error) *provider.Refused {
	text := err.Error()
	quotes := u.secret
	for _, value := range u.values {
		quotes = quotes || len(value) >= shortestSecret && strings.Contains(text, value)
	}
	if quotes {
		line := "the template"
		if found := inLine.FindStringSubmatch(text); found != nil {
			line = "line " + found[1] + " of the template"
		}
		text = line + " is invalid; it is not shown because it may contain a secret"
	}
	return &provider.Refused{Reason: v1alpha1.FleetReasonUserDataUnusable, Message: u.where + ": " + text}
}

// shortestSecret is the minimum length of a value, in bytes, that is kept secret: shorter ones would be found in any
// text.
const shortestSecret = 4

// labelsFlag formats labels as comma-separated key=value pairs, ordered by key.
func labelsFlag(labels map[string]string) string {
	pairs := make([]string, 0, len(labels))
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		pairs = append(pairs, key+"="+labels[key])
	}
	return strings.Join(pairs, ",")
}

// taintsFlag formats taints as comma-separated key=value:effect items.
func taintsFlag(taints []corev1.Taint) string {
	items := make([]string, len(taints))
	for i, t := range taints {
		items[i] = fmt.Sprintf("%s=%s:%s", t.Key, t.Value, t.Effect)
	}
	return strings.Join(items, ",")
}
