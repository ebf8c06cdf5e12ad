package cli

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"supercargo.dev/supercargo/cmd/internal/command"
	"supercargo.dev/supercargo/test/kit/commandtest"
)

// clusterCommands are command lines that need a cluster, by command.
func clusterCommands(t *testing.T) map[string][][]string {
	return map[string][][]string{
		"audit":     {{"audit"}},
		"dashboard": {{"dashboard"}},
		"explain":   {{"explain", "pod", "x"}, {"explain", "pods"}, {"explain", "node", "x"}, {"explain", "nodefleet", "x"}, {"explain", "consolidation"}},
		"migrate":   {{"migrate", "x"}},
		"pause":     {{"pause"}},
		"record":    {{"record", "-o", filepath.Join(t.TempDir(), "x.csv")}},
		"resume":    {{"resume"}},
	}
}

func TestEveryCommandOfAClusterSaysWhatToDoWithoutOne(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	unreachable := commandtest.File(t, `{apiVersion: v1, kind: Config, current-context: work, contexts: [{name: work, context: {cluster: c}}], clusters: [{name: c, cluster: {server: "`+gone.URL+`"}}]}`)
	lines := clusterCommands(t)
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			check(sub)
		}
		if flag := cmd.Flags().Lookup("kubeconfig"); flag == nil || flag.Annotations == nil {
			return
		}
		if len(lines[cmd.Name()]) == 0 {
			t.Errorf("%s needs a cluster, and is not tested without one", cmd.Name())
		}
		for _, line := range lines[cmd.Name()] {
			t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
			code, stdout, stderr := supercargo(t, "", line...)
			if code != command.ExitUsage || stdout != "" || !strings.Contains(stderr, "supercargo: no cluster is configured: ") || strings.Contains(stderr, "localhost") {
				t.Errorf("%v without a kubeconfig: exit code %d, stdout %q, stderr %q", line, code, stdout, stderr)
			}
			if cmd.Name() == "dashboard" {
				continue // its page says so
			}
			code, stdout, stderr = supercargo(t, "", append(line, "--kubeconfig", unreachable)...)
			if code != command.ExitFailed || stdout != "" || !strings.HasPrefix(stderr, "supercargo: the API server "+gone.URL+` of context "work" cannot be reached: `) {
				t.Errorf("%v without a server: exit code %d, stdout %q, stderr %q", line, code, stdout, stderr)
			}
		}
	}
	check(allCommands())
}
