package manifests

import (
	"bytes"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"

	"supercargo.dev/supercargo/test/kit/testfile"
)

// krewPlugin is a plugin manifest of krew's API v1alpha2.
type krewPlugin struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Version          string         `json:"version"`
		Homepage         string         `json:"homepage"`
		ShortDescription string         `json:"shortDescription"`
		Description      string         `json:"description"`
		Caveats          string         `json:"caveats"`
		Platforms        []krewPlatform `json:"platforms"`
	} `json:"spec"`
}

type krewPlatform struct {
	Selector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	} `json:"selector"`
	URI    string `json:"uri"`
	SHA256 string `json:"sha256"`
	Bin    string `json:"bin"`
	Files  []struct {
		From string `json:"from"`
		To   string `json:"to"`
	} `json:"files"`
}

// TestKrewFindsAPluginOfTheNameThatIsDocumented fills in the template as a release does, and checks it
// against krew's requirements.
func TestKrewFindsAPluginOfTheNameThatIsDocumented(t *testing.T) {
	type platform struct{ OS, Arch, SHA256 string }
	release := map[string]any{
		"Version": "v0.1.0", "Homepage": "https://example.org/supercargo", "Archives": "https://example.org/supercargo/v0.1.0",
		"Platforms": []platform{{"linux", "amd64", strings.Repeat("0a", 32)}, {"linux", "arm64", strings.Repeat("1b", 32)}},
	}
	p := filledIn(t, release)
	if p.APIVersion != "krew.googlecontainertools.github.io/v1alpha2" || p.Kind != "Plugin" || p.Metadata.Name != "supercargo" {
		t.Errorf("it is %s %s %q, want a plugin of krew named supercargo", p.APIVersion, p.Kind, p.Metadata.Name)
	}
	if !regexp.MustCompile(`^v\d+\.\d+\.\d+$`).MatchString(p.Spec.Version) || p.Spec.Description == "" || p.Spec.Homepage == "" {
		t.Errorf("version %q, homepage %q, description %q; want a semantic version and the others", p.Spec.Version, p.Spec.Homepage, p.Spec.Description)
	}
	if s := p.Spec.ShortDescription; s == "" || len(s) > 50+5 || strings.HasSuffix(s, ".") || strings.Contains(s, "\n") || strings.Contains(strings.ToLower(s), "kubectl") {
		t.Errorf("short description %q: want one line of some 50 letters without a stop", s)
	}
	if len(p.Spec.Platforms) != 2 {
		t.Fatalf("%d platforms, want those of the release", len(p.Spec.Platforms))
	}
	checkArchives(t, &p)
}

// checkArchives checks the archives of a plugin against krew's requirements.
func checkArchives(t *testing.T, p *krewPlugin) {
	t.Helper()
	for _, on := range p.Spec.Platforms {
		if u, err := url.Parse(on.URI); err != nil || u.Scheme != "https" || !strings.Contains(on.URI, on.Selector.MatchLabels["arch"]) || !strings.Contains(on.URI, p.Spec.Version) {
			t.Errorf("archive %q of %v (%v)", on.URI, on.Selector.MatchLabels, err)
		}
		if !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(on.SHA256) {
			t.Errorf("sum %q of %s", on.SHA256, on.URI)
		}
		var files []string
		for _, f := range on.Files {
			files = append(files, f.From)
		}
		if !slices.Contains(files, on.Bin) || !slices.Contains(files, "LICENSE") {
			t.Errorf("files %v: want the program %s and its license, which krew demands", files, on.Bin)
		}
	}
}

// filledIn returns the plugin manifest for a release.
func filledIn(t *testing.T, release map[string]any) (p krewPlugin) {
	t.Helper()
	filled, err := template.New("supercargo.yaml.tmpl").Option("missingkey=error").ParseFiles("../../manifests/krew/supercargo.yaml.tmpl")
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := filled.Execute(&text, release); err != nil {
		t.Fatal(err)
	}
	testfile.StrictYAML(t, text.Bytes(), &p)
	return p
}
