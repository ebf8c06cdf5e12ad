// Package dump prints a cluster in the format of kubectl get -A, to test `supercargo audit` on clusters
// of any size. The same flags produce the same bytes.
package dump

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// Command returns the subcommand that prints a cluster.
func Command() *cobra.Command {
	var nodes, pods int
	var seed uint64
	var format string
	var plain bool
	cmd := &cobra.Command{
		Use: "dump", Short: "Print a cluster of any size as kubectl get -A does", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return write(cmd.OutOrStdout(), nodes, pods, seed, format, plain)
		},
	}
	f := cmd.Flags()
	f.IntVar(&nodes, "nodes", 30, "how many nodes")
	f.IntVar(&pods, "pods", 400, "how many pods, those of DaemonSets left out")
	f.Uint64Var(&seed, "seed", 1, "of the random numbers")
	f.StringVarP(&format, "output", "o", "yaml", "yaml or json")
	f.BoolVar(&plain, "plain", false, "no pod demands anything of other pods")
	return cmd
}

// write prints a List of the objects.
func write(w io.Writer, nodes, pods int, seed uint64, format string, plain bool) error {
	out := bufio.NewWriter(w)
	switch format {
	case "yaml":
		fmt.Fprint(out, "apiVersion: v1\nitems:\n")
	case "json":
		fmt.Fprint(out, `{"apiVersion":"v1","items":[`)
	default:
		return fmt.Errorf("-o %s: want yaml or json", format)
	}
	first := true
	err := generate(nodes, pods, rand.New(rand.NewPCG(seed, 0)), plain, func(object any) error {
		if format == "json" {
			if !first {
				out.WriteByte(',')
			}
			first = false
			text, err := json.Marshal(object)
			if err != nil {
				return err
			}
			_, err = out.Write(text)
			return err
		}
		text, err := yaml.Marshal([]any{object})
		if err != nil {
			return err
		}
		_, err = out.Write(text)
		return err
	})
	if err != nil {
		return err
	}
	if format == "yaml" {
		fmt.Fprint(out, "kind: List\nmetadata:\n  resourceVersion: \"\"\n")
	} else {
		fmt.Fprint(out, `],"kind":"List","metadata":{"resourceVersion":""}}`)
	}
	return out.Flush()
}
