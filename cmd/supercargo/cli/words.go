package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
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

// alsoSpelled keeps an old spelling of a flag, which help does not list. cobra would print that it is
// deprecated to stdout, where only the result belongs.
func alsoSpelled(cmd *cobra.Command, old, now string) {
	alias := *cmd.Flags().Lookup(now)
	alias.Name, alias.Shorthand, alias.Hidden, alias.Usage = old, "", true, "the old spelling of --"+now
	cmd.Flags().AddFlag(&alias)
}

// days is a duration that may be written in days and weeks, such as 7d or 1w2d.
type days time.Duration

// String is how the flag is written.
func (d *days) String() string {
	if *d == 0 {
		return "0s"
	}
	return model.Duration(*d).String()
}

// Set reads a value of the flag.
func (d *days) Set(text string) error {
	plain, err := time.ParseDuration(text)
	if err != nil {
		long, wrong := model.ParseDuration(text)
		if wrong != nil {
			return fmt.Errorf("%q: want a time such as 24h or 7d", text)
		}
		plain = time.Duration(long)
	}
	if plain < 0 {
		return fmt.Errorf("%q: want a time of 0 or more", text)
	}
	*d = days(plain)
	return nil
}

// Type is what help shows.
func (d *days) Type() string { return "duration" }
