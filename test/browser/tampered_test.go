//go:build browser

package browser

import (
	"regexp"
	"strings"
	"testing"
)

// TestDamagedPagesAreFound breaks a page in one way at a time and expects the fault to be found. It shows
// that the checks can fail.
func TestDamagedPagesAreFound(t *testing.T) {
	sound := written(t, threePolicies().WriteHTML)
	security := regexp.MustCompile(`<meta http-equiv="Content-Security-Policy"[^>]*>`)
	unguarded := func(html string) string { return security.ReplaceAllString(html, "") }
	body := func(html, more string) string { return strings.Replace(html, "<main>", "<main>"+more, 1) }
	style := func(more string) string { return strings.Replace(unguarded(sound), "</style>", more+"</style>", 1) }
	tests := []struct {
		name, html, want string
	}{
		{"a script that the policy does not allow", body(sound, "<script>1</script>"), "log error: Executing inline script violates"},
		{"a style that the policy does not allow", body(sound, `<p style="color: red">x</p>`), "log error: Applying inline style violates"},
		{"a picture that the policy does not allow", body(sound, `<img src="https://example.invalid/x.png" alt="">`), "violates the following Content Security Policy"},
		{"a picture from elsewhere", body(unguarded(sound), `<img src="https://example.invalid/x.png" alt="">`), "request: https://example.invalid/x.png"},
		{"a warning", body(unguarded(sound), `<script>console.warn("careful")</script>`), "console warning: "},
		{"an error", body(unguarded(sound), `<script>console.error("broken")</script>`), "console error: "},
		{"an exception", body(unguarded(sound), `<script>throw new Error("thrown")</script>`), "exception: "},
		{"a dialog", body(unguarded(sound), `<script>setTimeout(() => alert("hello"))</script>`), "dialog: hello"},
		{"pale text", style("figcaption p { color: #999 }"), "contrast is 2.85, want 4.5"},
		{"pale numbers at an axis", style("svg text { fill: #999 }"), "contrast is 2.85, want 4.5"},
		{"text that shines through", style(".facts { opacity: .5 }"), "want 4.5"},
		{"small type", style("svg { font-size: 9px }"), "type is 9px, want 12px"},
		{"pale lines", style(".paths path { stroke: #ccc }"), "want 3"},
		{"a chart too many", body(unguarded(sound), `<figure><svg role="img" width="300" height="100"></svg></figure>`), "9 charts, want 8"},
		{"a chart that cannot be seen", style(".barplot { display: none }"), "is 0 by 0"},
		{"a line that leaves its chart", style(".paths path { transform: translateY(900px) }"), "leaves the chart"},
		{"a page wider than the window", style("main { width: 1500px }"), "wide, the window 1400"},
		{"labels on each other", style(".columns text { font-size: 60px }"), "overlap"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			p := open(t, tc.html, view{"light", 1400})
			if faults := inspect(t, p, 8); !strings.Contains(strings.Join(faults, "\n"), tc.want) {
				t.Errorf("faults are %q, want one with %q", faults, tc.want)
			}
		})
	}
}
