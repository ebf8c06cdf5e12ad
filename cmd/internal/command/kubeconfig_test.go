package command

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"supercargo.dev/supercargo/test/kit/commandtest"
)

const twoContexts = `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://example.com"}}]
contexts: [{name: b, context: {cluster: c, user: u}}, {name: a, context: {cluster: c, user: u}}]
users: [{name: u, user: {}}]
`

// configOf returns the API server that arguments select.
func configOf(t *testing.T, args ...string) (server string, err error) {
	t.Helper()
	flags := NewClusterFlags()
	cmd := &cobra.Command{Use: "x", RunE: func(*cobra.Command, []string) error {
		config, failed := flags.Config()
		if err = failed; err == nil {
			server = config.Host
		}
		return nil
	}}
	flags.AddTo(cmd, false)
	cmd.SetArgs(args)
	if failed := cmd.Execute(); failed != nil {
		t.Fatal(failed)
	}
	return server, err
}

func TestAUserWithoutAClusterIsToldWhichFileIsMissing(t *testing.T) {
	home := t.TempDir()
	absent := filepath.Join(home, "absent")
	for _, tc := range []struct {
		name       string
		kubeconfig string // the variable
		args       []string
		says       []string
	}{
		{"a file that a flag names", "", []string{"--kubeconfig", absent}, []string{"--kubeconfig " + absent + ": there is no such file"}},
		{"a file that the variable names", absent, nil, []string{"no cluster is configured", "KUBECONFIG names " + absent, "there is no such file", "--kubeconfig"}},
		{"an empty kubeconfig", commandtest.File(t, "apiVersion: v1\nkind: Config\n"), nil, []string{"no cluster is configured", "has no context"}},
		{"an empty kubeconfig of the flag", "", []string{"--kubeconfig", commandtest.File(t, "apiVersion: v1\nkind: Config\n")}, []string{"no cluster is configured", "has no context"}},
		{"no current context", commandtest.File(t, twoContexts), nil, []string{"no cluster is selected", "--context", "there are a, b"}},
		{"a context that does not exist", commandtest.File(t, twoContexts), []string{"--context", "z"}, []string{`context "z" does not exist`, "there are a, b"}},
		{"a file that is none", commandtest.File(t, "{"), nil, []string{"load the kubeconfig: "}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", tc.kubeconfig)
			_, err := configOf(t, tc.args...)
			if err == nil {
				t.Fatal("there is a configuration")
			}
			for _, want := range tc.says {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("it says %q, not %q", err, want)
				}
			}
			if strings.Contains(err.Error(), "localhost:8080") {
				t.Errorf("it says %q, which hides that there is no cluster", err)
			}
		})
	}
}

func TestAServerNeedsNoKubeconfig(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "absent"))
	if server, err := configOf(t, "--server", "https://example.com"); err != nil || server != "https://example.com" {
		t.Errorf("--server selects %q: %v", server, err)
	}
}
