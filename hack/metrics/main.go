// Command metrics writes the page of the documentation that lists the metrics of all programs:
//
//	go run ./hack/metrics -page docs/exported-metrics.md
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"supercargo.dev/supercargo/hack/metrics/exported"
)

func main() {
	page := flag.String("page", "", "`file` to write")
	flag.Parse()
	if err := run(*page); err != nil {
		fmt.Fprintln(os.Stderr, "metrics:", err)
		os.Exit(1)
	}
}

const head = `<!-- Written by make generate from what the programs register: change the help texts there. -->
# Metrics that the programs export

Each program serves these at ` + "`/metrics`" + `, beside those of the libraries that it is built with. [operations.md](operations.md#monitoring) says
how Prometheus gets them, and which dashboards and alerts there are.
`

func run(file string) error {
	all, err := exported.All()
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString(head)
	program := ""
	for _, m := range all {
		if !m.Own() {
			continue
		}
		if m.Program != program {
			program = m.Program
			fmt.Fprintf(&b, "\n## %s\n\n| metric | type | labels | says |\n| --- | --- | --- | --- |\n", program)
		}
		labels := ""
		if len(m.Labels) > 0 {
			labels = "`" + strings.Join(m.Labels, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.Name, m.Kind, labels, strings.ReplaceAll(m.Help, "|", `\|`))
	}
	return os.WriteFile(file, []byte(b.String()), 0o644)
}
