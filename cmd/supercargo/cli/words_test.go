package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"supercargo.dev/supercargo/cmd/internal/command"
)

// TestOutputOfEveryCommandIsCompleted: shell completion offers the formats in the help, the default
// first.
func TestOutputOfEveryCommandIsCompleted(t *testing.T) {
	seen := 0
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
		flag := cmd.Flags().Lookup("output")
		if flag == nil || cmd.Name() == "record" { // it appends to a file
			return
		}
		seen++
		path := strings.Fields(cmd.CommandPath())[1:]
		_, stdout, _ := supercargo(t, "", append(append([]string{"__complete"}, path...), "--output", "")...)
		offered := strings.Split(stdout, "\n")
		end := slices.IndexFunc(offered, func(line string) bool { return strings.HasPrefix(line, ":") })
		offered = offered[:max(0, end)]
		if len(offered) < 2 || offered[0] != flag.DefValue || !strings.Contains(flag.Usage, command.Words(offered).String()) {
			t.Errorf("%s: offered are %q; the default is %s, the help says %q", cmd.CommandPath(), offered, flag.DefValue, flag.Usage)
		}
	}
	walk(allCommands())
	if seen < 12 {
		t.Errorf("%d commands have the flag", seen)
	}
}
