package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const optionsHead = `<!-- Written by make generate from the help of the programs: change the descriptions there. -->
# Options

Every option of every program and command, as ` + "`--help`" + ` prints them. kube-scheduler has the [options of Kubernetes' kube-scheduler](https://kubernetes.io/docs/reference/command-line-tools-reference/kube-scheduler/)
and no others: plugins are [configured](../scheduling.md) in a file. With Helm, an option is a [value](../operations.md#options) of the same name.
`

var (
	option  = regexp.MustCompile(`^ +(?:-([a-zA-Z]), +)?--([a-z0-9-]+)(?: ([^ ]+))? {2,}(.*)$`)
	command = regexp.MustCompile(`^  ([a-z][a-z-]*) {2,}(\S.*)$`)
	preset  = regexp.MustCompile(`^(.*\S) *\(default (.*)\)$`)
	heading = regexp.MustCompile(`^([A-Z][A-Za-z ]*):$`)
)

// ofKubectl are kubectl's options that select a cluster.
var ofKubectl = strings.Fields(`
	as as-group as-uid as-user-extra certificate-authority client-certificate client-key cluster context disable-compression
	insecure-skip-tls-verify kubeconfig namespace request-timeout server tls-server-name token user cache-dir
`)

// options returns the page about the options of programs and all their commands. programs are the paths of the binaries.
func options(programs []string) (string, error) {
	var b strings.Builder
	b.WriteString(optionsHead)
	for _, path := range programs {
		if err := describe(&b, path, filepath.Base(path), nil); err != nil {
			return "", err
		}
	}
	return b.String(), nil
}

// describe writes the options of a command of a program, then those of its subcommands. words are the command.
func describe(b *strings.Builder, path, program string, words []string) error {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	help, err := exec.Command(absolute, append(append([]string{}, words...), "--help")...).Output()
	if err != nil {
		return fmt.Errorf("ask %s %s for its help: %w", program, strings.Join(words, " "), err)
	}
	fmt.Fprintf(b, "\n## %s\n\n", strings.Join(append([]string{program}, words...), " "))
	about, _, _ := strings.Cut(string(help), "\n\n")
	fmt.Fprintf(b, "%s\n\n", cell(about))
	commands := writeHelp(b, string(help))
	for _, name := range commands {
		if err := describe(b, path, program, append(append([]string{}, words...), name)); err != nil {
			return err
		}
	}
	return nil
}

// writeHelp writes the options in the help of a command as a table, and returns its subcommands.
func writeHelp(b *strings.Builder, help string) (commands []string) {
	reads := strings.Contains(help, "--as-user-extra ")
	if reads {
		b.WriteString("Also the options of kubectl that select the cluster, such as `--kubeconfig`, `--context` and `--namespace`.\n\n")
	}
	section, found := "", 0
	for _, line := range strings.Split(help, "\n") {
		if match := heading.FindStringSubmatch(line); match != nil {
			section = match[1]
			continue
		}
		if strings.HasSuffix(section, "lags") {
			match := option.FindStringSubmatch(line)
			if match == nil || match[2] == "help" || reads && slices.Contains(ofKubectl, match[2]) {
				continue
			}
			if found++; found == 1 {
				b.WriteString("| option | default | description |\n| --- | --- | --- |\n")
			}
			writeOption(b, match)
		} else if name := subcommand(section, line); name != "" {
			commands = append(commands, name)
		}
	}
	if !strings.Contains(help, " [command]\n") {
		commands = nil // the tables in its help do not list subcommands
	}
	if found == 0 && len(commands) == 0 {
		b.WriteString("No options.\n")
	}
	return commands
}

// subcommand returns the name of the subcommand that a line of a section of help describes, or "".
func subcommand(section, line string) string {
	match := command.FindStringSubmatch(line)
	if match == nil || slices.Contains([]string{"", "Examples", "Usage"}, section) || match[1] == "help" || match[1] == "completion" {
		return ""
	}
	return match[1]
}

func writeOption(b *strings.Builder, match []string) {
	short, name, value, about, standard := match[1], match[2], match[3], match[4], ""
	if d := preset.FindStringSubmatch(about); d != nil {
		about, standard = d[1], "`"+cell(d[2])+"`"
	}
	text := "--" + name
	if short != "" {
		text = "-" + short + ", " + text
	}
	if value != "" {
		text += " " + value
	}
	fmt.Fprintf(b, "| `%s` | %s | %s |\n", strings.ReplaceAll(text, "|", `\|`), standard, cell(about))
}
