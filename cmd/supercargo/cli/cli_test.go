package cli

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"supercargo.dev/supercargo/cmd/internal/command"
	laboratorycli "supercargo.dev/supercargo/cmd/supercargo-lab/cli"
	"supercargo.dev/supercargo/test/kit/commandtest"
)

// supercargo runs a command line in this process: its commands of the laboratory too, which run as a process of their
// own elsewhere.
func supercargo(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	if isLaboratory(args) {
		return commandtest.Run(t, laboratorycli.Run, stdin, args...)
	}
	return commandtest.Run(t, run, stdin, args...)
}

// allCommands returns the command line with the commands of the laboratory in the places of their descriptions.
func allCommands() *cobra.Command {
	root := newRootCommand("supercargo")
	for _, c := range laboratorycli.NewRootCommand("supercargo").Commands() {
		for _, described := range root.Commands() {
			if described.Name() == c.Name() && laboratoryCommands[c.Name()] != "" {
				root.RemoveCommand(described)
				c.GroupID = described.GroupID
				root.AddCommand(c)
			}
		}
	}
	return root
}

func TestBadUsageAndInputExitWithTwo(t *testing.T) {
	precious := commandtest.File(t, "not: a kubeconfig\n")
	for _, tc := range []struct {
		name, stdin string
		args        []string
		says        []string
	}{
		{"unknown command", "", []string{"plunder"}, []string{"plunder"}},
		{"unknown flag", "", []string{"playground", "--no-such-flag"}, []string{"--no-such-flag"}},
		{"argument too many", "", []string{"playground", "x"}, []string{"x"}},
		{"no number", "", []string{"playground", "--nodes", "many"}, []string{"--nodes", "many"}},
		{"queries of no adapter", "", []string{"playground", "--query-bind-address", "127.0.0.1:9090"}, []string{"--query-bind-address", "--metrics-adapter"}},
		{"queries nowhere", "", []string{"playground", "--metrics-adapter", "--query-bind-address", "9090"}, []string{"--query-bind-address", "host:port"}},
		{"negative number", "", []string{"playground", "--nodes", "-1"}, []string{"--nodes -1", "0 or more"}},
		{"no such workload", "", []string{"playground", "--workload", "none.yaml"}, []string{"-f: open none.yaml"}},
		{"bad workload", "kind: Pod\n", []string{"playground", "--workload", "-"}, []string{"stdin: document 1", "apiVersion"}},
		{"no such scheduler configuration", "", []string{"playground", "--scheduler-config", "none.yaml"}, []string{"--scheduler-config", "none.yaml"}},
		{"somebody's directory", "", []string{"playground", "--dir", filepath.Dir(precious)}, []string{"--dir", "not a playground's"}},
		{"somebody's file", "", []string{"playground", "--kubeconfig", precious}, []string{"--kubeconfig", "not a playground's"}},
		{"negative lags", "", []string{"playground", "--machine-lag", "-1s", "--machine-release-lag", "-2s"},
			[]string{"--machine-lag -1s", "--machine-release-lag -2s", "0 or more"}},
		{"no such flavors", "", []string{"playground", "--flavors", "none.csv"}, []string{"--flavors", "none.csv"}},
		{"flavors without cluster-api", "", []string{"playground", "--cluster-api=false", "--flavors", "none.csv"},
			[]string{"--flavors", "--cluster-api=false"}},
		{"unknown output", "", []string{"version", "-o", "xml"}, []string{"xml", "json"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, stdout, stderr := supercargo(t, tc.stdin, tc.args...)
			if code != command.ExitUsage || stdout != "" {
				t.Errorf("exit code %d with %q on stdout, want %d and nothing", code, stdout, command.ExitUsage)
			}
			for _, says := range tc.says {
				if !strings.Contains(stderr, says) {
					t.Errorf("stderr is %q, want it to mention %q", stderr, says)
				}
			}
		})
	}
}

func TestEveryCommandHelpsWithAnExample(t *testing.T) {
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		if cmd.Short == "" || cmd.Example == "" {
			t.Errorf("%s has no short description or no example", cmd.CommandPath())
		}
		if strings.ContainsAny(cmd.Short, ".\n") || cmd.Short != "" && !unicode.IsUpper([]rune(cmd.Short)[0]) {
			t.Errorf("%s is described by %q, want one sentence that begins with a capital and has no full stop", cmd.CommandPath(), cmd.Short)
		}
		cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) { saysItsDefault(t, cmd, f) })
		for _, sub := range cmd.Commands() {
			check(sub)
		}
	}
	check(allCommands())
	for _, args := range [][]string{nil, {"--help"}, {"playground", "--help"}, {"version", "--help"}} {
		code, stdout, stderr := supercargo(t, "", args...)
		if code != command.ExitOK || !strings.Contains(stdout, "Examples:") || stderr != "" {
			t.Errorf("supercargo %v exits with %d, stdout %q and stderr %q; want 0 and help with an example on stdout", args, code, stdout, stderr)
		}
	}
}

// saysItsDefault checks that help states the default of a flag, which it adds itself unless that is a zero value, and that a
// flag for a file says so.
func saysItsDefault(t *testing.T, cmd *cobra.Command, f *pflag.Flag) {
	t.Helper()
	placeholder, usage := pflag.UnquoteUsage(f)
	if f.Hidden {
		return
	}
	if zero := f.DefValue == "0" || f.DefValue == "0s"; zero && !strings.Contains(usage, "0 ") && !strings.Contains(usage, "zero") && !strings.Contains(usage, "default") && !strings.Contains(usage, "required") {
		t.Errorf("%s --%s: %q does not say what 0 is, its default", cmd.CommandPath(), f.Name, usage)
	}
	if file := strings.Contains(usage, "CSV file") || strings.Contains(usage, "HTML file") || strings.Contains(usage, "YAML file"); file && placeholder == "string" {
		t.Errorf("%s --%s: %q is shown as a string, want a file", cmd.CommandPath(), f.Name, usage)
	}
}

func TestItKnowsItIsAKubectlPlugin(t *testing.T) {
	var stdout, stderr bytes.Buffer
	run(t.Context(), []string{"/usr/bin/kubectl-supercargo", "audit", "--help"}, nil, &stdout, &stderr)
	laboratorycli.Run(t.Context(), []string{"/usr/bin/kubectl-supercargo", "playground", "--help"}, nil, &stdout, &stderr)
	if text := stdout.String(); !strings.Contains(text, "kubectl supercargo audit") || !strings.Contains(text, "kubectl supercargo playground") {
		t.Errorf("help is %q, want it to say kubectl supercargo", stdout.String())
	}
}

func TestVersionNamesBothVersions(t *testing.T) {
	code, stdout, _ := supercargo(t, "", "version", "-o", "json")
	var got command.Versions
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != command.ExitOK {
		t.Fatalf("exit code %d, output %q (%v), want one JSON document", code, stdout, err)
	}
	if got.Supercargo == "" || !strings.HasPrefix(got.Kubernetes, "v1.35") {
		t.Errorf("versions are %+v, want Supercargo's and a Kubernetes v1.35", got)
	}
	code, text, _ := supercargo(t, "", "version")
	if code != command.ExitOK || !strings.Contains(text, "Kubernetes "+got.Kubernetes) {
		t.Errorf("exit code %d, output %q, want the same for people", code, text)
	}
}

func TestCompletionIsWrittenForShells(t *testing.T) {
	code, stdout, _ := supercargo(t, "", "completion", "bash")
	if code != command.ExitOK || !strings.Contains(stdout, "supercargo") {
		t.Errorf("exit code %d and %d bytes, want a script", code, len(stdout))
	}
}
