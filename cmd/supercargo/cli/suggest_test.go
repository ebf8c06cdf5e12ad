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
		{[]string{"adopt", "nodepol/x"}, "did you mean nodepool or nodepools?"},
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
	reads := []string{"adopt", "audit", "explain", "migrate"}
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

// TestOldSpellingsAreTakenAndNotShown: scripts use the old names, which help does not list. Of the old names of -f, the
// description of -f says that they are accepted.
func TestOldSpellingsAreTakenAndNotShown(t *testing.T) {
	for _, tc := range []struct{ command, old, now string }{
		{"audit", "from", "filename"}, {"plan", "pods", "filename"}, {"replicas", "trace", "filename"}, {"workers", "tasks", "filename"}, {"demo", "trace", "filename"},
		{"playground", "workload", "filename"}, {"record", "output", "output-file"},
		{"record", "for", "duration"}, {"playground", "machine-flavors", "flavors"}, {"dashboard", "listen", "address"},
	} {
		cmd, _, err := allCommands().Find([]string{tc.command})
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Flags().Set(tc.old, "1h"); err != nil || cmd.Flags().Lookup(tc.now).Value.String() != "1h" {
			t.Errorf("%s --%s=1h (%v): --%s is %q", tc.command, tc.old, err, tc.now, cmd.Flags().Lookup(tc.now).Value)
		}
		if !cmd.Flags().Lookup(tc.old).Hidden || cmd.Flags().Lookup(tc.now).Hidden {
			t.Errorf("help of %s shows --%s, or not --%s", tc.command, tc.old, tc.now)
		}
		if says := "--" + tc.old + " is an old name of this option"; tc.now == "filename" && !strings.Contains(cmd.Flags().Lookup(tc.now).Usage, says) {
			t.Errorf("help of %s does not say that %s", tc.command, says)
		}
	}
}

// TestFReadsAndOFormats: -f is the input of a command, and -o the format of what it prints, a table by default. A command
// that prints manifests prints YAML, as kubectl's commands do.
func TestFReadsAndOFormats(t *testing.T) {
	first := map[string]string{"supercargo adopt": "yaml"}
	everyFlag(allCommands(), func(path string, f *pflag.Flag) {
		if first[path] == "" {
			first[path] = "table"
		}
		switch {
		case f.Name == "filename" && (f.Shorthand != "f" || f.Hidden || !strings.HasPrefix(f.Usage, "`file`") && !strings.Contains(f.Usage, "CSV `file`") && !strings.Contains(f.Usage, "YAML `file`")):
			t.Errorf("%s: -f is --%s: %s", path, f.Name, f.Usage)
		case f.Name == "output" && !strings.HasSuffix(path, " record") && (f.Shorthand != "o" || f.DefValue != first[path] || !strings.HasPrefix(f.Usage, "how to print: "+f.DefValue)):
			t.Errorf("%s: -o is --%s, %s by default: %s", path, f.Name, f.DefValue, f.Usage)
		}
	})
	for _, format := range []string{"text", "table"} { // the old name and the name
		if code, stdout, stderr := supercargo(t, "", "version", "-o", format); code != command.ExitOK || !strings.HasPrefix(stdout, "Supercargo ") {
			t.Errorf("-o %s: exit code %d, %q, %s", format, code, stdout, stderr)
		}
	}
	// Commands without a word of a format.
	for _, name := range []string{"dashboard", "pause", "playground", "record", "resume"} {
		cmd, _, err := allCommands().Find([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		if f := cmd.Flags().ShorthandLookup("o"); f != nil && !f.Hidden {
			t.Errorf("%s has -o, --%s", name, f.Name)
		}
	}
}

// TestFlagsThatExcludeEachOtherAreBadUsage: cobra finds this later than other faults of flags.
func TestFlagsThatExcludeEachOtherAreBadUsage(t *testing.T) {
	for _, args := range [][]string{{"migrate", "x", "--wait", "--no-wait"}, {"plan", "-f", "x", "--pods", "y", "--flavors", "z"}} {
		if code, stdout, stderr := supercargo(t, "", args...); code != command.ExitUsage || stdout != "" || !strings.Contains(stderr, "none of the others can be") {
			t.Errorf("%v: exit code %d, %q, %s", args, code, stdout, stderr)
		}
	}
}
