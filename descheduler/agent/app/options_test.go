package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// parse parses flags as the command does.
func parse(t *testing.T, args ...string) *Options {
	t.Helper()
	var o Options
	flags := pflag.NewFlagSet("node-agent", pflag.ContinueOnError)
	o.AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return &o
}

func TestDefaultsAreGood(t *testing.T) {
	sizes, selector, err := parse(t, "--node-name=n").check()
	if err != nil || selector != nil {
		t.Fatalf("the defaults give %v, %v", selector, err)
	}
	if sizes.image != 8<<30 || sizes.total != 32<<30 || sizes.work != 8<<30 {
		t.Errorf("sizes are %+v", sizes)
	}
	if sizes.presend != 64<<20 {
		t.Errorf("memory is sent before the freeze from %d bytes on", sizes.presend)
	}
	if sizes, _, err := parse(t, "--node-name=n", "--presend-above=0").check(); err != nil || sizes.presend != 0 {
		t.Errorf("never to send memory before the freeze gives %+v, %v", sizes, err)
	}
	if _, selector, err := parse(t, "--simulate=type=kwok").check(); err != nil || selector == nil {
		t.Errorf("a simulation gives %v, %v", selector, err)
	}
	if sizes, _, err := parse(t, "--node-name=n", "--work-size=").check(); err != nil || sizes.work != 0 {
		t.Errorf("no work size gives %+v, %v", sizes, err)
	}
}

func TestWrongFlagsAreNamed(t *testing.T) {
	for _, wrong := range []string{
		"--max-image-bytes=much", "--max-image-bytes=0", "--max-total-bytes=-1", "--presend-above=-1", "--presend-above=large", "--work-size=x", "--simulate-dump-rate=0", "--simulate-ship-rate=fast",
		"--state-dir=here", "--work-dir=", "--host-root=.", "--listen-address=8444", "--serve-address=x", "--containerd=unix",
		"--max-moves=0", "--max-images=-1", "--stalled-after=0s", "--sweep-every=-1h", "--simulate-memory=NaN", "--simulate-memory=17", "--simulate-freeze=-1s",
	} {
		name, _, _ := strings.Cut(wrong, "=")
		if _, _, err := parse(t, "--node-name=n", wrong).check(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s gives %v, want an error that names the flag", wrong, err)
		}
	}
	for _, args := range [][]string{nil, {"--node-name=n", "--simulate=a=b"}, {"--simulate=!!"}, {"--simulate="}} {
		if _, _, err := parse(t, args...).check(); err == nil || !strings.Contains(err.Error(), "--simulate") {
			t.Errorf("%q gives %v, want an error that names --simulate", args, err)
		}
	}
}

func TestFoldersThatOthersEnterAreRefused(t *testing.T) {
	dir := t.TempDir()
	shut, open := filepath.Join(dir, "shut"), filepath.Join(dir, "open")
	if err := os.Mkdir(open, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := parse(t, "--state-dir="+shut, "--work-dir="+filepath.Join(shut, "work")).keepOthersOut(); err != nil {
		t.Errorf("folders of its own: %v", err)
	}
	for _, args := range [][]string{{"--state-dir=" + open, "--work-dir=" + shut}, {"--state-dir=" + shut, "--work-dir=" + open}} {
		if err := parse(t, args...).keepOthersOut(); err == nil || !strings.Contains(err.Error(), open) {
			t.Errorf("%v gives %v, want an error that names the folder", args, err)
		}
	}
}

func TestAllWrongFlagsAreNamedAtOnce(t *testing.T) {
	_, _, err := parse(t, "--max-moves=0", "--state-dir=x", "--max-image-bytes=y").check()
	for _, name := range []string{"--max-moves", "--state-dir", "--max-image-bytes", "--node-name"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v does not name %s", err, name)
		}
	}
}
