// Command chartoptions writes the options of the programs into the schema of the chart's values, so that Helm
// rejects unknown options and editors show a description of each:
//
//	go run ./hack/chartoptions -schema values.schema.json bin/autoscaler bin/descheduler node-meter='bin/node-agent meter'
//
// The name of a program is its file name, unless the argument has another name before a "=". The command
// reads the options from the help of each program, which is also all that users see of them.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// composed lists the options that the chart sets itself, or that must agree with other objects of the chart.
// Users cannot set them.
var composed = map[string][]string{
	"":           {"help", "version", "kubeconfig", "metrics-bind-address", "health-probe-bind-address", "leader-elect-namespace"},
	"autoscaler": {"actions"},
	"descheduler": {
		"actions", "probe-image", "consolidation-status-namespace", "meter-namespace", "meter-port", "meter-token",
	},
	"evictions":       {"eviction-webhook-bind-address", "eviction-webhook-configuration", "eviction-webhook-hosts", "eviction-webhook-secret"},
	"node-agent":      {"node-name", "host-root", "serve-address", "listen-address"},
	"node-meter":      {"node-name", "host-root", "serve-address", "namespace"},
	"metrics-adapter": {"config", "service", "secure-port", "store-dir", "custom-metrics", "external-metrics", "node-meter-namespace", "node-meter-port", "node-meter-token"},
	"kube-scheduler":  {"config", "secure-port"},
	"dashboard": {
		"address", "authorize", "certificate-secret", "open", "as", "as-group", "as-uid", "as-user-extra", "certificate-authority", "client-certificate", "client-key",
		"cluster", "context", "disable-compression", "insecure-skip-tls-verify", "request-timeout", "server", "tls-server-name", "token", "user",
	},
}

// modes are what the descheduler can do about something.
var modes = []string{"Off", "Observe", "Act"}

// tlsVersions are the names of Kubernetes for versions of TLS.
var tlsVersions = []string{"VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"}

// choices lists the options that have only these values.
var choices = map[string]map[string][]string{
	"descheduler": {
		"consolidation": modes, "energy-moves": modes, "probing": modes, "consolidation-policy": {"CostAware", "HTAS"}, "energy-tariff-unit": {"Dollars", "Grams"},
	},
	"evictions":      {"eviction-after-failure": {"Evict", "Keep"}},
	"node-meter":     {"power-meter": {"rapl", "hwmon", "query", "model", "auto", "none"}, "power-preset": {"kepler", "node-exporter"}},
	"kube-scheduler": {"leader-elect-resource-lock": {"leases"}, "logging-format": {"json", "text"}, "tls-min-version": tlsVersions},
	"metrics-adapter": {
		"audit-log-format": {"legacy", "json"}, "audit-log-mode": {"batch", "blocking", "blocking-strict"}, "audit-log-version": {"audit.k8s.io/v1"},
		"audit-webhook-mode": {"batch", "blocking", "blocking-strict"}, "audit-webhook-version": {"audit.k8s.io/v1"}, "tls-min-version": tlsVersions,
	},
}

// duration matches what time.ParseDuration accepts, except negative durations.
const duration = `^(0|([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+)$`

func main() {
	schema := flag.String("schema", "", "JSON `file` with the schema, which is changed")
	flag.Parse()
	if err := run(*schema, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "chartoptions:", err)
		os.Exit(1)
	}
}

func run(file string, programs []string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var schema map[string]any
	if err := json.Unmarshal(text, &schema); err != nil {
		return fmt.Errorf("read schema %s: %w", file, err)
	}
	definitions, ok := schema["definitions"].(map[string]any)
	if !ok {
		return fmt.Errorf("schema %s has no object %q", file, "definitions")
	}
	for _, program := range programs {
		name, command, named := strings.Cut(program, "=")
		if !named {
			name, command = filepath.Base(program), program
		}
		words := strings.Fields(command)
		path, err := filepath.Abs(words[0])
		if err != nil {
			return err
		}
		help, err := exec.Command(path, append(words[1:], "--help")...).Output()
		if err != nil {
			return fmt.Errorf("run %s --help: %w", program, err)
		}
		options := optionsOf(name, string(help))
		if len(options) < 3 {
			return fmt.Errorf("%s --help shows only %d options: if its format has changed, adapt hack/chartoptions", program, len(options))
		}
		definitions[name+"Options"] = map[string]any{"type": "object", "properties": options, "additionalProperties": false}
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(schema); err != nil {
		return err
	}
	return os.WriteFile(file, out.Bytes(), 0o644)
}

// option matches the line of an option in the help: its name, the placeholder of its value, which switches
// lack, and its description.
var option = regexp.MustCompile(`(?m)^ +(?:-[a-z], +)?--([a-z0-9-]+)(?: ([^ ]+))? {2,}(.*)$`)

// optionsOf returns a schema for each option in the help of a program, by name.
func optionsOf(program, help string) map[string]any {
	options := map[string]any{}
	for _, match := range option.FindAllStringSubmatch(help, -1) {
		name, word, about := match[1], match[2], strings.TrimSpace(match[3])
		if slices.Contains(composed[""], name) || slices.Contains(composed[program], name) || strings.HasPrefix(about, "DEPRECATED") {
			continue
		}
		schema := map[string]any{"description": about, "type": types(word, about)}
		if allowed, ok := choices[program][name]; ok {
			schema = map[string]any{"description": about, "type": "string", "enum": allowed}
		} else if word == "duration" {
			schema["pattern"] = duration
		}
		options[name] = schema
	}
	return options
}

// list matches an option whose default is a list.
var list = regexp.MustCompile(`\(default \[.*\]\)$`)

// types returns the JSON types that an option's value may have. A string option may also be written as a
// number; the program validates it.
func types(word, about string) any {
	switch {
	case word == "":
		return "boolean"
	case word == "int" || word == "int32" || word == "uint" || word == "Level":
		return "integer"
	case word == "float" || word == "float32" || word == "float64":
		return "number"
	case word == "string" || word == "duration":
		return "string"
	case list.MatchString(about):
		return []string{"array", "string"}
	case strings.HasSuffix(word, "s"): // for example names or bytes
		return []string{"array", "number", "string"}
	}
	return []string{"number", "string"}
}
