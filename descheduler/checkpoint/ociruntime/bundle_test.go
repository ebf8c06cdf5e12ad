package ociruntime

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"supercargo.dev/supercargo/test/kit/testfile"
)

func TestBundles(t *testing.T) {
	for name, tc := range map[string]struct {
		spec string
		want bundle
	}{
		"a container of a pod": {`{"root":{"path":"/r"},"annotations":{"io.kubernetes.cri.container-type":"container","io.kubernetes.cri.sandbox-uid":"u","io.kubernetes.cri.container-name":"c"}}`,
			bundle{Pod: "u", Container: "c", Rootfs: "/r"}},
		"a sandbox":          {`{"root":{"path":"/r"},"annotations":{"io.kubernetes.cri.container-type":"sandbox","io.kubernetes.cri.sandbox-uid":"u"}}`, bundle{Rootfs: "/r"}},
		"nothing of a pod":   {`{"root":{"path":"/r"}}`, bundle{Rootfs: "/r"}},
		"no root, as on NT":  {`{}`, bundle{}},
		"names of other use": {`{"annotations":{"sandbox-uid":"u","container-type":"container"}}`, bundle{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := parseBundle(strings.NewReader(tc.spec)); err != nil || got != tc.want {
				t.Errorf("it is %+v (%v), want %+v", got, err, tc.want)
			}
		})
	}
	for _, spec := range []string{"", "[]", `{"annotations":[]}`, `{"root":{"path":1}}`, `"` + strings.Repeat("x", maxSpec) + `"`} {
		if got, err := parseBundle(strings.NewReader(spec)); err == nil {
			t.Errorf("%.20q is read as %+v", spec, got)
		}
	}
}

func TestARootIsRelativeToItsBundle(t *testing.T) {
	dir := t.TempDir()
	testfile.Write(t, filepath.Join(dir, "config.json"), `{"root":{"path":"rootfs"}}`)
	if got, err := readBundle(dir); err != nil || got.Rootfs != filepath.Join(dir, "rootfs") {
		t.Errorf("it is %+v, %v", got, err)
	}
}

func FuzzParseBundle(f *testing.F) {
	f.Add([]byte(`{"root":{"path":"/r"},"annotations":{"io.kubernetes.cri.container-type":"container","io.kubernetes.cri.sandbox-uid":"u"}}`))
	f.Fuzz(func(t *testing.T, spec []byte) {
		b, err := parseBundle(bytes.NewReader(spec))
		if err == nil && b.Pod != "" && !bytes.Contains(spec, []byte("container")) {
			t.Errorf("%q is a container of pod %s", spec, b.Pod)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add("--root\n/r\ncreate\n--bundle\n/b\nc1")
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, "\n")
		c, ok := Parse(args)
		if !ok {
			return
		}
		for i, word := range c.Globals {
			if word != args[i] {
				t.Errorf("Parse(%q) changes the flags before the command to %q", args, c.Globals)
			}
		}
		if c.Command == "create" && c.ID == "" && args[len(args)-1] != "" {
			t.Errorf("Parse(%q) has no container", args)
		}
	})
}
