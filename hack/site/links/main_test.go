package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"supercargo.dev/supercargo/test/kit/testfile"
)

func TestDeadLinksAreFound(t *testing.T) {
	for name, tc := range map[string]struct{ body, want string }{
		"to a page":               {`<a href="/x/docs/b/">b</a>`, ""},
		"to a heading":            {`<a href="/x/docs/b/#there">b</a>`, ""},
		"in the page":             {`<h2 id="here"></h2><a href="#here">h</a>`, ""},
		"to a file":               {`<a href="../../style.css">s</a>`, ""},
		"to another site":         {`<a href="https://example.org/">e</a>`, ""},
		"to no page":              {`<a href="/x/docs/c/">c</a>`, "no such page"},
		"out of the site":         {`<a href="/docs/b/">b</a>`, "no such page"},
		"to no heading":           {`<a href="/x/docs/b/#gone">b</a>`, "no such heading"},
		"a script from elsewhere": {`<script src="https://cdn.example/x.js"></script>`, "from elsewhere"},
		"a picture that is gone":  {`<img src="/x/gone.png">`, "no such page"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for file, text := range map[string]string{"docs/a/index.html": tc.body, "docs/b/index.html": `<h2 id="there"></h2>`, "style.css": ""} {
				path := filepath.Join(root, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				testfile.Write(t, path, text)
			}
			_, err := check(root, "https://docs.example/x/")
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}
