package command

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// farthest is the maximum edit distance of a suggestion.
const farthest = 2

// nearest returns the words that are similar to the typed one, by edit distance or because they begin
// with it, the nearest first.
func nearest(typed string, all []string) []string {
	typed = strings.ToLower(typed)
	far := map[string]int{}
	var found []string
	for _, word := range all {
		d := distance(typed, strings.ToLower(word))
		if d <= farthest && d < len(word) || len(typed) > 1 && strings.HasPrefix(strings.ToLower(word), typed) {
			far[word] = d
			found = append(found, word)
		}
	}
	slices.SortFunc(found, func(a, b string) int { return cmp.Or(cmp.Compare(far[a], far[b]), cmp.Compare(a, b)) })
	return slices.Compact(found)
}

// distance returns the edit distance: the number of insertions, deletions, substitutions and
// transpositions of adjacent bytes that turn a into b. Cost: O(len(a) × len(b)).
func distance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			change := last[j]
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, change)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}

// DidYouMean returns a question with up to three suggestions, or "".
func DidYouMean(typed string, all []string, prefix string) string {
	found := nearest(typed, all)
	if len(found) == 0 {
		return ""
	}
	for i := range found {
		found[i] = prefix + found[i]
	}
	return "; did you mean " + strings.Join(found[:min(len(found), 3)], " or ") + "?"
}

// OnlyCommands rejects arguments of a command that only has subcommands, and suggests similar ones.
func OnlyCommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return fmt.Errorf("unknown command %q for %q%s", args[0], cmd.CommandPath(), DidYouMean(args[0], names, ""))
}

// SuggestFlags adds suggestions to the error for an unknown flag.
func SuggestFlags(cmd *cobra.Command, err error) error {
	var missing *pflag.NotExistError
	if !errors.As(err, &missing) || len(missing.GetSpecifiedName()) < 2 {
		return err
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Deprecated == "" {
			names = append(names, f.Name)
		}
	})
	return fmt.Errorf("%w%s", err, DidYouMean(missing.GetSpecifiedName(), names, "--"))
}
