package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// words are the values that a flag may have.
type words []string

// How commands print. The first is the default.
var (
	textOrJSON      = words{"text", "json"}
	textJSONOrYAML  = words{"text", "json", "yaml"}
	tableOrJSON     = words{"table", "json"}
	tableJSONOrYAML = words{"table", "json", "yaml"}
)

// String enumerates them: table, json or yaml.
func (w words) String() string {
	last := len(w) - 1
	if last < 1 {
		return strings.Join(w, "")
	}
	return strings.Join(w[:last], ", ") + " or " + w[last]
}

// check refuses a value that is none of them, and names the flag.
func (w words) check(flag, value string) error {
	if slices.Contains(w, value) {
		return nil
	}
	return fmt.Errorf("--%s %q: want %v", flag, value, w)
}

// complete has the shell offer them for a flag of the command.
func (w words) complete(cmd *cobra.Command, flag string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(w, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the caller has defined the flag, and completes it once
	}
}

// addOutput adds the flag --output, which says in which of the formats to print. What
// follows the last of them in the help is note.
func addOutput(cmd *cobra.Command, value *string, formats words, note string) {
	cmd.Flags().StringVarP(value, "output", "o", formats[0], fmt.Sprintf("how to print: %v%s", formats, note))
	formats.complete(cmd, "output")
}

// alsoSpelled keeps an old spelling of a flag, which says how it is spelled now.
func alsoSpelled(cmd *cobra.Command, old, now string) {
	alias := *cmd.Flags().Lookup(now)
	alias.Name, alias.Shorthand, alias.Hidden, alias.Deprecated = old, "", true, "use --"+now
	cmd.Flags().AddFlag(&alias)
}
