package manifests

import (
	"regexp"
	"strings"
	"testing"
)

// image matches the name of an image in a container or an argument.
var image = regexp.MustCompile(`(?:image: |value: |--[a-z-]*image=)"?(\S+:v[0-9]\S*?)"?(?:\s|$)`)

// TestNoManifestNamesARegistryOfOthers builds every part. A name without a registry, such as supercargo/autoscaler, is
// a folder of Docker Hub that anybody may own; a release names its own registry instead.
func TestNoManifestNamesARegistryOfOthers(t *testing.T) {
	programs := map[string]bool{}
	for _, folder := range kustomizations(t) {
		text, err := build(t, folder).AsYaml()
		if err != nil {
			t.Fatal(err)
		}
		// What docs/operations.md does by sed.
		if strings.Contains(strings.ReplaceAll(string(text), "registry.invalid/supercargo", "registry.example/supercargo"), "registry.invalid") {
			t.Errorf("%s still names registry.invalid after its folder was replaced", folder)
		}
		for _, match := range image.FindAllStringSubmatch(string(text), -1) {
			name, own := strings.CutPrefix(match[1], "registry.invalid/supercargo/")
			if !own {
				t.Errorf("%s names %s", folder, match[1])
			}
			program, _, _ := strings.Cut(name, ":")
			programs[program] = true
		}
	}
	if len(programs) != 7 {
		t.Errorf("found images of %v", programs)
	}
}
