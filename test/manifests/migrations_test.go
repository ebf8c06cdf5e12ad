package manifests

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// TestThePoliciesOfMigrationsNameEveryFieldOfTheStatus compares them with the kind: a field that they forget could be written by
// an agent or a scheduler.
func TestThePoliciesOfMigrationsNameEveryFieldOfTheStatus(t *testing.T) {
	for file, own := range map[string][]string{
		"../../manifests/agent/policy.yaml":       {"source", "target"},
		"../../manifests/descheduler/policy.yaml": {"reservation"},
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		status := reflect.TypeFor[v1alpha1.MigrationStatus]()
		for i := range status.NumField() {
			name, _, _ := strings.Cut(status.Field(i).Tag.Get("json"), ",")
			unchanged := regexp.MustCompile(`object(\.\??)status\.\?` + name + ` == oldObject(\.\??)status\.\?` + name + `\b`)
			if got := unchanged.Match(text); got == slices.Contains(own, name) && name != "source" && name != "target" {
				t.Errorf("%s: status.%s must not change: %t", file, name, got)
			}
		}
	}
}
