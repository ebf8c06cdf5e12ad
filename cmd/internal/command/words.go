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

// table is the format for people, which all commands print by default.
const table = "table"

// The output formats. The first is the default.
var (
	TableOrJSON     = Words{table, "json"}
	TableJSONOrCSV  = Words{table, "json", "csv"}
	TableJSONOrYAML = Words{table, "json", "yaml"}
)

// String returns a list such as: table, json or yaml.
func (w Words) String() string {
	last := len(w) - 1
	if last < 1 {
		return strings.Join(w, "")
	}
	return strings.Join(w[:last], ", ") + " or " + w[last]
}

// Check returns an error, with the name of the flag, if the value is invalid. Where a table is valid, its old name text
// is too.
func (w Words) Check(flag, value string) error {
	if slices.Contains(w, value) || value == "text" && slices.Contains(w, table) {
		return nil
	}
	return fmt.Errorf("--%s %q: must be %v", flag, value, w)
}

// AddOutput adds the flag --output for the formats. The help text ends with note.
func AddOutput(cmd *cobra.Command, value *string, formats Words, note string) {
	cmd.Flags().StringVarP(value, "output", "o", formats[0], fmt.Sprintf("how to print: %v%s", formats, note))
	formats.Complete(cmd, "output")
}

// AddInput adds the flag -f, --filename for the file that a command reads. old is the name that the flag had before;
// scripts use it, so it is accepted, and help says so.
func AddInput(cmd *cobra.Command, value *string, usage, old string) {
	if old != "" {
		usage += "; --" + old + " is an old name of this option"
	}
	cmd.Flags().StringVarP(value, "filename", "f", "", usage)
	if old != "" {
		AlsoSpelled(cmd, old, "filename")
	}
}

// AlsoSpelled keeps an old name of a flag, which help does not list. It is not deprecated in cobra,
// because cobra prints such warnings to stdout, where only the result belongs.
func AlsoSpelled(cmd *cobra.Command, old, now string) { alsoSpelled(cmd, old, "", now) }

func alsoSpelled(cmd *cobra.Command, old, letter, now string) {
	alias := *cmd.Flags().Lookup(now)
	alias.Name, alias.Shorthand, alias.Hidden, alias.Usage = old, letter, true, "the old spelling of --"+now
	cmd.Flags().AddFlag(&alias)
	cmd.MarkFlagsMutuallyExclusive(old, now) // the two have one value
}

// AddOutputFile adds the flag --output-file for the file that a command writes. Before, that was -o, --output, which is
// the format elsewhere: it is accepted, but not with the name of a format.
func AddOutputFile(cmd *cobra.Command, value *string, usage string) {
	cmd.Flags().StringVar(value, "output-file", "", usage+"; -o is an old name of this option")
	alsoSpelled(cmd, "output", "o", "output-file")
}

// CheckOutputFile returns an error if -o of a command that has AddOutputFile is the name of a format.
func CheckOutputFile(cmd *cobra.Command) error {
	old := cmd.Flags().Lookup("output")
	if value := old.Value.String(); old.Changed && TableJSONOrYAML.Check("output", value) == nil {
		return fmt.Errorf("-o %s: this command writes a file and prints no format: use --output-file, with ./%s for a file of that name", value, value)
	}
	return nil
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
