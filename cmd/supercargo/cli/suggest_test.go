package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"supercargo.dev/supercargo/cmd/internal/command"
)

func TestWhatIsMistypedIsAnsweredWithWhatMayBeMeant(t *testing.T) {
	for _, tc := range []struct {
		args []string
		says string
	}{
		{[]string{"simualte"}, "did you mean simulate?"},
		{[]string{"exp"}, "did you mean explain?"},
		{[]string{"report", "node"}, "did you mean nodes?"},
		{[]string{"simulate", "--polcy", "default"}, "did you mean --policy?"},
		{[]string{"explain", "pod/x", "--namespce", "n"}, "did you mean --namespace?"},
		{[]string{"explain", "pdo/x"}, "did you mean pod?"},
		{[]string{"explain", "nodeflet", "x"}, "did you mean nodefleet?"},
		{[]string{"explain", "consolidate"}, "must be KIND/NAME"},
		{[]string{"explain", "nodefleet"}, "the name of the nodefleet is missing"},
		{[]string{"explain", "pod", "x", "-A"}, "-n NAMESPACE"},
	} {
		code, stdout, stderr := supercargo(t, "", tc.args...)
		if code != command.ExitUsage || stdout != "" || !strings.Contains(stderr, tc.says) {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q; want %d, nothing and %q", tc.args, code, stdout, stderr, command.ExitUsage, tc.says)
		}
	}
	if _, _, stderr := supercargo(t, "", "simulate", "--wholly-different"); strings.Contains(stderr, "did you mean") {
		t.Errorf("stderr is %q, want no suggestion where nothing is near", stderr)
	}
}

func TestShortNamesOfKindsAreThoseOfKubectl(t *testing.T) {
	for short, kind := range map[string]string{"po": "pod", "no": "node", "nf": "nodefleet", "rp": "replicapolicy", "wp": "workerpool", "mig": "migration", "mp": "machineprofile", "Pods": "pod"} {
		if got, err := explainKindOf(short); err != nil || got.name != kind {
			t.Errorf("%s is kind %q (%v), want %q", short, got.name, err, kind)
		}
	}
}

func TestHelpListsCommandsInGroups(t *testing.T) {
	_, stdout, _ := supercargo(t, "", "--help")
	last := 0
	for _, title := range []string{"Cluster:", "  audit", "  explain", "Plan and simulate:", "  simulate", "Laboratory:", "  playground"} {
		at := strings.Index(stdout[last:], "\n"+title)
		if at < 0 {
			t.Fatalf("help does not have %q where it should:\n%s", title, stdout)
		}
		last += at
	}
	_, stdout, _ = supercargo(t, "", "explain", "--help")
	own, cluster, found := strings.Cut(stdout, "Which cluster, as for kubectl:")
	_, flags, listed := strings.Cut(own, "Flags:")
	if !found || !listed || !strings.Contains(flags, "--output") || strings.Contains(flags, "--kubeconfig") || !strings.Contains(cluster, "--kubeconfig") {
		t.Errorf("help does not list the flags of the cluster apart:\n%s", stdout)
	}
}

// everyFlag calls see for each flag of each command.
func everyFlag(cmd *cobra.Command, see func(path string, f *pflag.Flag)) {
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) { see(cmd.CommandPath(), f) })
	for _, sub := range cmd.Commands() {
		everyFlag(sub, see)
	}
}

func TestEachCommandThatReadsAClusterIsToldWhichAsKubectlIs(t *testing.T) {
	reads := []string{"audit", "explain", "migrate"}
	for _, name := range reads {
		cmd, _, err := newRootCommand("supercargo").Find([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		for _, flag := range []string{"kubeconfig", "context", "cluster", "user", "as", "as-group", "server", "token", "request-timeout"} {
			if f := cmd.Flags().Lookup(flag); f == nil || f.Annotations[command.OfCluster] != nil {
				t.Errorf("%s has no --%s", name, flag)
			}
		}
	}
}

// TestOneThingHasOneSpelling checks the flags of all commands together: a letter stands for one flag,
// and a flag has one type and one letter.
func TestOneThingHasOneSpelling(t *testing.T) {
	type first struct{ path, name, kind, letter string }
	byName, byLetter := map[string]first{}, map[string]first{}
	everyFlag(allCommands(), func(path string, f *pflag.Flag) {
		// Flags that may be repeated count as the same type.
		is := first{path, f.Name, strings.TrimSuffix(strings.TrimSuffix(f.Value.Type(), "Slice"), "Array"), f.Shorthand}
		if was, seen := byName[f.Name]; seen && (was.kind != is.kind || was.letter != is.letter) {
			t.Errorf("--%s is %s -%s of %s, and %s -%s of %s", f.Name, was.kind, was.letter, was.path, is.kind, is.letter, is.path)
		}
		byName[f.Name] = is
		if f.Shorthand == "" {
			return
		}
		if was, seen := byLetter[f.Shorthand]; seen && was.name != f.Name {
			t.Errorf("-%s is --%s of %s, and --%s of %s", f.Shorthand, was.name, was.path, f.Name, path)
		}
		byLetter[f.Shorthand] = is
	})
	// Each of these used to have two spellings.
	for old, now := range map[string]string{"file": "filename", "cycle": "interval"} {
		if f, is := byName[old]; is {
			t.Errorf("%s has --%s, which is --%s elsewhere", f.path, old, now)
		}
		if _, is := byName[now]; !is {
			t.Errorf("no command has --%s", now)
		}
	}
}

func TestOldSpellingsAreTakenAndNotShown(t *testing.T) {
	for _, tc := range []struct{ command, old, now string }{{"record", "for", "duration"}, {"playground", "machine-flavors", "flavors"}, {"dashboard", "listen", "address"}} {
		cmd, _, err := allCommands().Find([]string{tc.command})
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Flags().Set(tc.old, "1h"); err != nil || cmd.Flags().Lookup(tc.now).Value.String() != "1h" {
			t.Errorf("%s --%s=1h (%v): --%s is %q", tc.command, tc.old, err, tc.now, cmd.Flags().Lookup(tc.now).Value)
		}
		if help := cmd.Flags().FlagUsages(); strings.Contains(help, "--"+tc.old) || !strings.Contains(help, "--"+tc.now) {
			t.Errorf("help of %s shows --%s, or not --%s:\n%s", tc.command, tc.old, tc.now, help)
		}
	}
}
