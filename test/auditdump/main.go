// Program auditdump prints a cluster in the format of kubectl get -A, to test `supercargo audit` on clusters
// of any size. The same flags produce the same bytes.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"

	"sigs.k8s.io/yaml"
)

func main() {
	nodes := flag.Int("nodes", 30, "how many nodes")
	pods := flag.Int("pods", 400, "how many pods, those of DaemonSets left out")
	seed := flag.Uint64("seed", 1, "of the random numbers")
	format := flag.String("o", "yaml", "yaml or json")
	plain := flag.Bool("plain", false, "no pod demands anything of other pods")
	flag.Parse()
	if err := write(os.Stdout, *nodes, *pods, *seed, *format, *plain); err != nil {
		log.Fatal(err)
	}
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
