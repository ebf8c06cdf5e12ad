package contentpolicy_test

import (
	"testing"

	"supercargo.dev/supercargo/internal/text/contentpolicy"
)

// The hashes are those of `printf %s TEXT | openssl dgst -sha256 -binary | base64`.
func TestAPolicyNamesTheStyleSheetAndTheScriptByTheirHashes(t *testing.T) {
	for _, c := range []struct{ style, script, want string }{
		{"b{}", "", "default-src 'none'; style-src 'sha256-7yqHVAesot11p6HczDsgKRipvI5UPgs97z80zNXlans='; base-uri 'none'; form-action 'none'"},
		{"b{}", "f()", "default-src 'none'; style-src 'sha256-7yqHVAesot11p6HczDsgKRipvI5UPgs97z80zNXlans='; script-src 'sha256-GcEEE0IkDzIP5EQ6DXZaDPORqT5RTBELX8Fyzyg9yvo='; base-uri 'none'; form-action 'none'"},
	} {
		if got := contentpolicy.Of(c.style, c.script); got != c.want {
			t.Errorf("of %q and %q:\n%s\nwant\n%s", c.style, c.script, got, c.want)
		}
	}
}
