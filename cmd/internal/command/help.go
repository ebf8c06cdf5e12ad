package command

import (
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// AddGroup adds commands that help lists under a title.
func AddGroup(root *cobra.Command, id, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: id, Title: title})
	for _, c := range commands {
		c.GroupID = id
		root.AddCommand(c)
	}
}

// ListClusterApart makes help list a command's own flags first, and those that select the cluster,
// which are many and the same for all commands, after them.
func ListClusterApart(root *cobra.Command) {
	defineFlagLists()
	const all = `{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}`
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(), all,
		`{{ownFlags .LocalFlags | trimTrailingWhitespaces}}{{with clusterFlags .LocalFlags}}

Which cluster, as for kubectl:
{{. | trimTrailingWhitespaces}}{{end}}`, 1))
}

// defineFlagLists defines the functions of the template, which are global to the process.
var defineFlagLists = sync.OnceFunc(func() {
	usages := func(cluster bool) func(*pflag.FlagSet) string {
		return func(all *pflag.FlagSet) string {
			some := pflag.NewFlagSet("", pflag.ContinueOnError)
			all.VisitAll(func(f *pflag.Flag) {
				if _, is := f.Annotations[OfCluster]; is == cluster {
					some.AddFlag(f)
				}
			})
			return some.FlagUsages()
		}
	}
	cobra.AddTemplateFunc("ownFlags", usages(false))
	cobra.AddTemplateFunc("clusterFlags", usages(true))
})
