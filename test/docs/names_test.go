package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// source contains the names in the code, with which the pages are compared. It is read once, from the syntax
// of all Go files except tests, without types, so that it takes a second.
type source struct {
	metrics map[string]bool // full names, and all combinations that a package may join
	flags   map[string]bool // without dashes
	text    map[string]bool // all string literals
}

// readSource parses every Go file of the repository that is not a test.
func readSource(t *testing.T) source {
	t.Helper()
	s := source{metrics: map[string]bool{}, flags: map[string]bool{}, text: map[string]bool{}}
	byFolder := map[string][]*ast.File{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains(skipped, entry.Name()) {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		byFolder[filepath.Dir(path)] = append(byFolder[filepath.Dir(path)], file)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, files := range byFolder {
		s.read(files)
	}
	return s
}

// read reads the files of one package.
func (s *source) read(files []*ast.File) {
	constants := map[string]string{}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			if v, ok := n.(*ast.ValueSpec); ok {
				for i, name := range v.Names {
					if i < len(v.Values) {
						if value, ok := constant(v.Values[i], constants); ok {
							constants[name.Name] = value
						}
					}
				}
			}
			return true
		})
	}
	texts, subsystems := map[string]bool{}, map[string]bool{}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if text, ok := constant(n, nil); ok {
					s.text[text], texts[text] = true, true
					if subsystem.MatchString(text) {
						subsystems[strings.TrimSuffix(text, "_")] = true
					}
				}
			case *ast.CompositeLit:
				if name := metricName(n, constants); name != "" {
					s.metrics[name] = true
				}
			case *ast.CallExpr:
				s.readCall(n, constants)
			}
			return true
		})
	}
	// Helpers of some packages join a subsystem and a name from different calls.
	for first := range subsystems {
		for last := range texts {
			s.metrics[first+"_"+last] = true
		}
	}
}

// subsystem matches the prefix of the names of a package's metrics.
var subsystem = regexp.MustCompile(`^supercargo_[a-z_]+$`)

// readCall records the flag that a call adds, if it is a call of pflag: the name is the first string
// argument.
func (s *source) readCall(call *ast.CallExpr, constants map[string]string) {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !strings.HasSuffix(strings.TrimSuffix(f.Sel.Name, "P"), "Var") && !flagMakers[f.Sel.Name] {
		return
	}
	for _, arg := range call.Args {
		if name, ok := constant(arg, constants); ok {
			s.flags[name] = true
			return
		}
	}
}

// flagMakers are functions that create a flag and return its value, and our helpers that add one.
var flagMakers = map[string]bool{"String": true, "Bool": true, "Int": true, "Duration": true, "StringP": true, "BoolP": true}

// constant returns the string value of an expression, if its syntax determines it.
func constant(e ast.Expr, constants map[string]string) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.Ident:
		text, ok := constants[e.Name]
		return text, ok
	case *ast.BinaryExpr:
		left, okLeft := constant(e.X, constants)
		right, okRight := constant(e.Y, constants)
		return left + right, okLeft && okRight && e.Op == token.ADD
	}
	return "", false
}

// metricName returns the name of a metric from its options, joined as Prometheus does, or "" if the literal
// is something else.
func metricName(c *ast.CompositeLit, constants map[string]string) string {
	parts := map[string]string{}
	for _, element := range c.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			if key, ok := pair.Key.(*ast.Ident); ok {
				parts[key.Name], _ = constant(pair.Value, constants)
			}
		}
	}
	var name []string
	for _, part := range []string{"Namespace", "Subsystem", "Name"} {
		if parts[part] != "" {
			name = append(name, parts[part])
		}
	}
	if parts["Name"] == "" || !strings.HasPrefix(strings.Join(name, "_"), "supercargo_") {
		return ""
	}
	return strings.Join(name, "_")
}

var (
	metricInPage = regexp.MustCompile(`\bsupercargo_[a-z0-9_]*[a-z0-9](?:_?\*)?`)
	histogram    = regexp.MustCompile(`_(?:bucket|sum|count)$`)
)

// TestEveryMetricOfThePagesExists checks that each metric is registered, or written under a name in the code.
func TestEveryMetricOfThePagesExists(t *testing.T) {
	s := readSource(t)
	found := 0
	for _, p := range pages(t) {
		for i, line := range strings.Split(p.text, "\n") {
			for _, name := range metricInPage.FindAllString(line, -1) {
				found++
				if !s.hasMetric(name) {
					t.Errorf("%s:%d names metric %s, which nothing emits", p.name, i+1, name)
				}
			}
		}
	}
	if found < 50 || len(s.metrics) < 100 {
		t.Errorf("found %d metrics in the pages and %d in the code", found, len(s.metrics))
	}
}

func (s *source) hasMetric(name string) bool {
	if all, ok := strings.CutSuffix(name, "*"); ok {
		for metric := range s.metrics {
			if strings.HasPrefix(metric, all) {
				return true
			}
		}
		return false
	}
	plain := histogram.ReplaceAllString(name, "")
	return s.metrics[name] || s.text[name] || s.metrics[plain]
}

// foreign are flags of programs that are not ours, which these tests do not look up: flags that every program
// of ours gets from its libraries, flags of kubectl, of Kubernetes' own programs, and of other programs.
var foreign = strings.Fields(`
	help
	namespace context cluster user as as-group server token request-timeout metric-labels-allowlist
	all disable-eviction force force-conflicts for from-file from-literal image no-headers patch-file port restart selector server-side type watch
	horizontal-pod-autoscaler-sync-period horizontal-pod-autoscaler-tolerance node-labels patches register-with-taints system-reserved tls-cert-file tls-private-key-file v
	create-namespace kube-context set take-ownership values wait
	clusterrole serviceaccount
	expander scale-down-utilization-threshold scale-down-unneeded-time max-node-provision-time max-nodes-total cores-total memory-total enforce-node-group-min-size expendable-pods-priority-cutoff batch-idle-duration batch-max-duration
	address armor check data-urlencode detach-sign flag idle-timeout ignore-missing monitor no-install-recommends password role single-shot ssl tags ttl verify
`)

// foreigners matches programs that are not ours. A line that names one may name its flags.
var foreigners = regexp.MustCompile(`kubectl|kubeadm|kubelet|kube-(?:apiserver|controller-manager|proxy)|API server|openstack |makeflow|work_queue|docker|apt-get|containerd|criu`)

var flagInPage = regexp.MustCompile("(?:^|[\\s`(\"'\\[])--([a-z][a-z0-9-]*)")

// TestEveryFlagOfThePagesExists: some program of ours has it, or it is known to be another's.
func TestEveryFlagOfThePagesExists(t *testing.T) {
	s := readSource(t)
	found := 0
	for _, p := range pages(t) {
		if p.name == "docs/reference/options.md" { // written from the help of the programs
			continue
		}
		for i, line := range strings.Split(p.text, "\n") {
			for _, match := range flagInPage.FindAllStringSubmatch(line, -1) {
				found++
				if name := match[1]; !s.flags[name] && !slices.Contains(foreign, name) && !foreigners.MatchString(line) {
					t.Errorf("%s:%d names flag --%s, which no program of ours has; if it is another's, add it to foreign", p.name, i+1, name)
				}
			}
		}
	}
	if found < 200 {
		t.Errorf("found only %d flags", found)
	}
}

// valueInPage matches values of the chart in code and in --set. A name of a domain begins in the same way.
var (
	valueInPage = regexp.MustCompile("(?:`|--set[ =])((?:autoscaler|descheduler|evictions|nodeAgent|nodeMeter|metricsAdapter|dashboard|scheduler|monitoring|networkPolicy|image)(?:\\.[A-Za-z0-9-]+)+)")
	domain      = regexp.MustCompile(`\.(dev|io)$`)
)

// hasValue reports whether a schema has a value, given as its path. A part without properties takes any.
func hasValue(schema map[string]any, path []string) bool {
	properties, is := schema["properties"].(map[string]any)
	if len(path) == 0 || !is {
		return true
	}
	next, is := properties[path[0]].(map[string]any)
	return is && hasValue(next, path[1:])
}

// TestEveryValueOfTheChartThatPagesNameExists looks it up in the schema of the values.
func TestEveryValueOfTheChartThatPagesNameExists(t *testing.T) {
	schema, err := schemaOfValues()
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{"autoscaler.machines.enabled": true, "autoscaler.machine.enabled": false, "descheduler.options.consolidation": true, "nodeAgent.enable": false} {
		if hasValue(schema, strings.Split(path, ".")) != want {
			t.Errorf("it is found that the chart has %s: %v, want %v", path, !want, want)
		}
	}
	found := 0
	for _, p := range pages(t) {
		for i, line := range strings.Split(p.text, "\n") {
			for _, match := range valueInPage.FindAllStringSubmatch(line, -1) {
				if domain.MatchString(match[1]) {
					continue
				}
				found++
				if !hasValue(schema, strings.Split(match[1], ".")) {
					t.Errorf("%s:%d names %s, which is no value of the chart", p.name, i+1, match[1])
				}
			}
		}
	}
	if found < 50 {
		t.Errorf("found only %d values", found)
	}
}

// pageOfCommand are the pages that describe all options of a command. The pages of other commands describe the options that
// need more than their line in docs/reference/options.md.
var pageOfCommand = map[string]string{
	"audit": "docs/audit.md", "explain": "docs/explain.md", "migrate": "docs/migration.md", "plan": "docs/planning.md", "record": "docs/record.md",
}

// TestThePageOfACommandDescribesEachOfItsOptions compares it with the generated page of options.
func TestThePageOfACommandDescribesEachOfItsOptions(t *testing.T) {
	option := regexp.MustCompile("(?m)^\\| `(?:(-\\w), )?(--[a-z0-9-]+)")
	found := map[string]int{}
	for _, section := range strings.Split(named(t, "docs/reference/options.md").text, "\n## supercargo ") {
		command, _, _ := strings.Cut(section, "\n")
		if pageOfCommand[command] == "" {
			continue
		}
		page := named(t, pageOfCommand[command])
		for _, match := range option.FindAllStringSubmatch(section, -1) {
			found[command]++
			short, long := match[1], match[2]
			if !regexp.MustCompile(long+`\b`).MatchString(page.text) && (short == "" || !regexp.MustCompile(`[ \x60]`+short+`\b`).MatchString(page.text)) {
				t.Errorf("%s does not describe %s of supercargo %s", page.name, long, command)
			}
		}
	}
	if len(found) != len(pageOfCommand) || found["audit"] < 10 {
		t.Errorf("found options of %v", found)
	}
}

var manifestInPage = regexp.MustCompile(`(?:^|[^/\w.-])(manifests/[A-Za-z0-9_/.+-]*[A-Za-z0-9])`)

// TestEveryManifestThatIsNamedExists: in the pages, in the manifests themselves, and in what
// programs say to users.
func TestEveryManifestThatIsNamedExists(t *testing.T) {
	texts := pages(t)
	for text := range readSource(t).text {
		texts = append(texts, page{"a text in the code", text})
	}
	err := filepath.WalkDir(root+"/manifests", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".yaml" {
			return err
		}
		text, err := os.ReadFile(path)
		texts = append(texts, page{path, string(text)})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, p := range texts {
		for _, match := range manifestInPage.FindAllStringSubmatch(p.text, -1) {
			found++
			if _, err := os.Stat(filepath.Join(root, match[1])); err != nil {
				t.Errorf("%s names %s, which is not there", p.name, match[1])
			}
		}
	}
	if found < 80 {
		t.Errorf("found only %d", found)
	}
}

// TestEveryKustomizationThatIsAppliedExists: kubectl apply -k and delete -k take folders with
// a kustomization.
func TestEveryKustomizationThatIsAppliedExists(t *testing.T) {
	applied := regexp.MustCompile(`-k (manifests/[a-z/-]+[a-z])`)
	found := 0
	for _, p := range pages(t) {
		for _, match := range applied.FindAllStringSubmatch(p.text, -1) {
			found++
			if _, err := os.Stat(filepath.Join(root, match[1], "kustomization.yaml")); err != nil {
				t.Errorf("%s: kubectl would not take %s: %v", p.name, match[1], err)
			}
		}
	}
	if found < 20 {
		t.Errorf("found only %d", found)
	}
}

// TestEveryTargetOfMakeExists checks code in the pages: "make" is a word too.
func TestEveryTargetOfMakeExists(t *testing.T) {
	cmd := makes(t, "-pnrR", "help")
	database, err := cmd.Output()
	if err != nil {
		t.Fatalf("read the Makefile: %v", err)
	}
	targets := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?m)^([a-zA-Z0-9_./-]+):`).FindAllStringSubmatch(string(database), -1) {
		targets[match[1]] = true
	}
	inCode := regexp.MustCompile("(?:^(?:    |\t)\\s*|`)make ((?:[A-Z_]+=\\S+ )*)([a-z][a-z0-9/-]*(?:\\.[0-9]+)*)")
	found := 0
	for _, p := range pages(t) {
		for i, line := range strings.Split(p.text, "\n") {
			for _, match := range inCode.FindAllStringSubmatch(line, -1) {
				found++
				if !targets[match[2]] {
					t.Errorf("%s:%d: make has no target %s", p.name, i+1, match[2])
				}
			}
		}
	}
	if found < 30 {
		t.Errorf("found only %d", found)
	}
}

// TestImagesAreBuiltUnderTheTagOfTheManifests checks the make commands in the pages.
func TestImagesAreBuiltUnderTheTagOfTheManifests(t *testing.T) {
	tag := regexp.MustCompile(`image: registry\.invalid/supercargo/[a-z-]+:(\S+)`)
	tags := map[string]bool{}
	err := filepath.WalkDir(root+"/manifests", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".yaml" {
			return err
		}
		text, err := os.ReadFile(path)
		for _, match := range tag.FindAllStringSubmatch(string(text), -1) {
			tags[match[1]] = true
		}
		return err
	})
	if err != nil || len(tags) != 1 {
		t.Fatalf("the manifests have tags %v, want one: %v", tags, err)
	}
	command := regexp.MustCompile("make images[^`\n]*")
	found := 0
	for _, p := range pages(t) {
		for _, text := range command.FindAllString(p.text, -1) {
			found++
			if match := regexp.MustCompile(`IMAGE_TAG=(\S+)`).FindStringSubmatch(text); match == nil || !tags[match[1]] {
				t.Errorf("%s: %q does not make images of the tag in the manifests, %v", p.name, text, tags)
			}
		}
	}
	if found < 2 {
		t.Errorf("found only %d", found)
	}
}
