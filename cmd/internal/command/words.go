package command

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/spf13/cobra"
)

// Words are the valid values of a flag.
type Words []string

// The output formats. The first is the default.
var (
	TextOrJSON      = Words{"text", "json"}
	TextJSONOrYAML  = Words{"text", "json", "yaml"}
	TableOrJSON     = Words{"table", "json"}
	TableJSONOrYAML = Words{"table", "json", "yaml"}
)

// String returns a list such as: table, json or yaml.
func (w Words) String() string {
	last := len(w) - 1
	if last < 1 {
		return strings.Join(w, "")
	}
	return strings.Join(w[:last], ", ") + " or " + w[last]
}

// Check returns an error, with the name of the flag, if the value is invalid.
func (w Words) Check(flag, value string) error {
	if slices.Contains(w, value) {
		return nil
	}
	return fmt.Errorf("--%s %q: must be %v", flag, value, w)
}

// Complete adds shell completion of the values for a flag.
func (w Words) Complete(cmd *cobra.Command, flag string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(w, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the caller has defined the flag, and completes it once
	}
}

// AddOutput adds the flag --output for the formats. The help text ends with note.
func AddOutput(cmd *cobra.Command, value *string, formats Words, note string) {
	cmd.Flags().StringVarP(value, "output", "o", formats[0], fmt.Sprintf("how to print: %v%s", formats, note))
	formats.Complete(cmd, "output")
}

// AlsoSpelled keeps an old name of a flag, which help does not list. It is not deprecated in cobra,
// because cobra prints such warnings to stdout, where only the result belongs.
func AlsoSpelled(cmd *cobra.Command, old, now string) {
	alias := *cmd.Flags().Lookup(now)
	alias.Name, alias.Shorthand, alias.Hidden, alias.Usage = old, "", true, "the old spelling of --"+now
	cmd.Flags().AddFlag(&alias)
}

// Days is a duration that accepts days and weeks, such as 7d or 1w2d.
type Days time.Duration

// String implements [pflag.Value].
func (d *Days) String() string {
	if *d == 0 {
		return "0s"
	}
	return model.Duration(*d).String()
}

// Set implements [pflag.Value].
func (d *Days) Set(text string) error {
	plain, err := time.ParseDuration(text)
	if err != nil {
		long, wrong := model.ParseDuration(text)
		if wrong != nil {
			return fmt.Errorf("%q: must be a time such as 24h or 7d", text)
		}
		plain = time.Duration(long)
	}
	if plain < 0 {
		return fmt.Errorf("%q: must be 0 or more", text)
	}
	*d = Days(plain)
	return nil
}

// Type implements [pflag.Value].
func (d *Days) Type() string { return "duration" }
