// Package commands lists the commands of the documentation, and the test that runs each of them. A test in test/docs
// checks that the list is complete. test/e2e/commands runs the commands that no other test runs.
package commands

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Command is a command line of a page.
type Command struct {
	// Page is the path of the page from the root of the repository.
	Page string
	// Line is the number of its first line, from 1.
	Line int
	// Text is the command on one line, without prompt and comment.
	Text string
}

// String returns the page, the line and the text of the command.
func (c Command) String() string { return fmt.Sprintf("%s:%d: %s", c.Page, c.Line, c.Text) }

// programs are the first words of commands.
var programs = strings.Fields(`
	apt-get bin/supercargo cp ctr curl echo export for git go gpg grep helm hack/nodes/nodes.sh hack/vms/vms.sh kubectl make makeflow mv nginx-exporter
	node-agent npm openstack sed supercargo tar /usr/bin/time
`)

// notShell matches the first lines of blocks that look like commands, but are something else: output, queries, formulas,
// files of other kinds.
var notShell = []*regexp.Regexp{
	regexp.MustCompile(`^go: module `),                                // output of go
	regexp.MustCompile(`^(name|time),`),                               // CSV
	regexp.MustCompile(`^(bill|minimise|v_i|s_f|pods|category) `),     // formulas, a drawing, an Event
	regexp.MustCompile(`^(sum|avg|count|supercargo_node_[a-z_]+)\b `), // PromQL
	regexp.MustCompile(`^access_log `),                                // nginx
	regexp.MustCompile(`^c := `),                                      // Go
	regexp.MustCompile(`^\.MAKEFLOW `),                                // a workflow
}

// Read returns the commands of pages, in the order of pages and lines. Pages are paths from root. It returns an error if
// a line in a block of commands does not start with a known program, and if a block looks like commands, but its first
// line does not start with one.
func Read(root string, pages ...string) ([]Command, error) {
	var all []Command
	for _, page := range pages {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			return nil, err
		}
		for _, b := range blocksOf(string(text)) {
			commands, err := b.commands(page)
			if err != nil {
				return nil, err
			}
			all = append(all, commands...)
		}
	}
	return all, nil
}

// shells are the languages of fenced blocks of commands, and otherLanguages those of other blocks.
var (
	shells         = []string{"", "sh", "shell", "console", "bash"}
	otherLanguages = []string{"yaml", "json", "csv", "go", "text"}
)

// block is a block of code of a page.
type block struct {
	line     int // number of the first line
	language string
	lines    []string // without spaces around them
	raw      []string // as they are
}

// Block is a block of a page that is not of commands.
type Block struct {
	// Line is the number of its first line, from 1.
	Line int
	// Text is the block without the indentation of its first line.
	Text string
}

// Others returns the blocks of a page that are not of commands.
func Others(page string) (all []Block) {
	for _, b := range blocksOf(page) {
		if shell, _ := b.shell(); shell || b.language != "" && slices.Contains(shells, b.language) {
			continue
		}
		indent := b.raw[0][:len(b.raw[0])-len(strings.TrimLeft(b.raw[0], " \t"))]
		var text strings.Builder
		for _, line := range b.raw {
			text.WriteString(strings.TrimPrefix(line, indent) + "\n")
		}
		all = append(all, Block{b.line, text.String()})
	}
	return all
}

var (
	fence    = regexp.MustCompile("^\\s*```\\s*(\\w*)")
	indented = regexp.MustCompile(`^(?:    |\t)`)
)

// blocksOf returns the indented and fenced blocks of a page. A blank line ends an indented block, so that YAML after
// commands is a block of its own. An indented line directly below a line of text belongs to its paragraph.
func blocksOf(page string) (all []block) {
	var b block
	end := func() {
		if len(b.lines) > 0 {
			all = append(all, b)
		}
		b = block{}
	}
	fenced, below := false, ""
	for i, line := range strings.Split(page, "\n") {
		match, above := fence.FindStringSubmatch(line), below
		below = strings.TrimSpace(line)
		switch {
		case match != nil:
			end()
			fenced = !fenced
			if fenced {
				b.language = match[1]
			}
			continue
		case !fenced && (!indented.MatchString(line) || len(b.lines) == 0 && above != ""):
			end()
			continue
		}
		if len(b.lines) == 0 {
			b.line = i + 1
		}
		b.lines, b.raw = append(b.lines, strings.TrimSpace(line)), append(b.raw, line)
	}
	end()
	return all
}

// commands returns the commands of a block.
func (b block) commands(page string) (all []Command, err error) {
	if !slices.Contains(shells, b.language) {
		if !slices.Contains(otherLanguages, b.language) {
			return nil, fmt.Errorf("%s:%d: language %s is unknown: add it to shells or to otherLanguages", page, b.line, b.language)
		}
		return nil, nil
	}
	shell, prompt := b.shell()
	if !shell {
		if first := b.lines[0]; commandLike.MatchString(first) && !slices.ContainsFunc(notShell, func(r *regexp.Regexp) bool { return r.MatchString(first) }) {
			return nil, fmt.Errorf("%s:%d: %q may be a command: add its program to programs, or the line to notShell", page, b.line, first)
		}
		return nil, nil
	}
	for i := 0; i < len(b.lines); i++ {
		line := b.lines[i]
		if text, ok := strings.CutPrefix(line, "$ "); ok {
			line = text
		} else if prompt {
			continue // output
		}
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		c := Command{Page: page, Line: b.line + i}
		if !slices.Contains(programs, firstWord(line)) {
			return nil, fmt.Errorf("%s: %q is not a command of a known program: add it to programs", c, line)
		}
		for continues.MatchString(line) && i+1 < len(b.lines) {
			i++
			line = strings.TrimSuffix(line, `\`) + " " + b.lines[i]
		}
		c.Text = strings.Join(strings.Fields(comment.ReplaceAllString(line, "")), " ")
		all = append(all, c)
	}
	return all, nil
}

var (
	commandLike = regexp.MustCompile(`^(?:\$ )?[a-z./][A-Za-z0-9_./-]*(?: [^=≥≤:]|$)`)
	continues   = regexp.MustCompile(`(?:\\|\|)$`)
	comment     = regexp.MustCompile(`\s+# .*$`)
)

// shell reports whether a block contains commands, and whether they have a prompt, so that other lines are output.
func (b block) shell() (shell, prompt bool) {
	for _, line := range b.lines {
		if strings.HasPrefix(line, "$ ") {
			return true, true
		}
	}
	first := slices.IndexFunc(b.lines, func(line string) bool { return line != "" && !strings.HasPrefix(line, "#") })
	return first >= 0 && slices.Contains(programs, firstWord(b.lines[first])), false
}

func firstWord(line string) string {
	word, _, _ := strings.Cut(line, " ")
	return word
}
