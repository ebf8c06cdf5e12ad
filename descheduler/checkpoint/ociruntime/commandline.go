// Package ociruntime is a container runtime that containerd starts in place of runc. It is runc for every container but
// one that a Migration moves to this node: that container continues from its checkpoint.
//
// commandline.go reads the command line, bundle.go the specification of the container, changes.go applies the files that
// the container had changed, and run.go decides and acts.
package ociruntime

import (
	"slices"
	"strings"
)

// Call is a command line of runc, as far as this program has to know it.
type Call struct {
	// Globals are the flags before the command, as they were given.
	Globals []string
	// Command is the command, such as "create"; empty if there is none.
	Command string
	// ID is the container to create or to start; empty for other commands.
	ID string
	// Root is the folder in which runc keeps its state; empty if it is runc's default.
	Root string
	// Log is the file to which runc writes its errors, and LogFormat is "json" or "text"; both may be empty.
	Log, LogFormat string
	// Bundle is the folder with the specification of the container to create; empty for the working folder.
	Bundle string
	// PIDFile, ConsoleSocket and NoPivot are flags of create that runc's restore has too.
	PIDFile, ConsoleSocket string
	NoPivot                bool
}

// flags maps the names of flags, without dashes, to whether a value follows.
type flags map[string]bool

// The flags of runc 1.1 to 1.5.
var (
	globalFlags = flags{
		"criu": true, "debug": false, "log": true, "log-format": true, "root": true, "rootless": true, "systemd-cgroup": false,
		"help": false, "h": false, "version": false, "v": false,
	}
	createFlags = flags{
		"bundle": true, "b": true, "console-socket": true, "pidfd-socket": true, "pid-file": true, "preserve-fds": true,
		"no-pivot": false, "no-new-keyring": false,
	}
)

// Parse reads the arguments that follow the name of the program. It returns false if they contain a flag that it does
// not know: then it cannot tell where values end, and only runc can judge them. What follows a command other than create
// and start is not read.
func Parse(args []string) (Call, bool) {
	var c Call
	rest, ok := globalFlags.read(args, c.global)
	if !ok {
		return Call{}, false
	}
	c.Globals = slices.Clone(args[:len(args)-len(rest)])
	if len(rest) == 0 {
		return c, true
	}
	c.Command, rest = rest[0], rest[1:]
	switch c.Command {
	case "create":
		rest, ok = createFlags.read(rest, c.create)
	case "start":
		rest, ok = flags{}.read(rest, c.create)
	default:
		return c, true
	}
	if !ok || len(rest) != 1 {
		return Call{}, false
	}
	c.ID = rest[0]
	return c, true
}

// global notes a flag before the command.
func (c *Call) global(name, value string) {
	switch name {
	case "root":
		c.Root = value
	case "log":
		c.Log = value
	case "log-format":
		c.LogFormat = value
	}
}

// create notes a flag of the command create.
func (c *Call) create(name, value string) {
	switch name {
	case "bundle", "b":
		c.Bundle = value
	case "console-socket":
		c.ConsoleSocket = value
	case "pid-file":
		c.PIDFile = value
	case "no-pivot":
		c.NoPivot = value != "false"
	}
}

// read reads flags up to the first word that is none, and returns the words from there on. It returns false for an
// unknown flag, and for one whose value is missing.
func (f flags) read(args []string, note func(name, value string)) (rest []string, ok bool) {
	for len(args) > 0 {
		word := args[0]
		if word == "--" {
			return args[1:], true
		}
		if !strings.HasPrefix(word, "-") || word == "-" {
			return args, true
		}
		args = args[1:]
		name, value, given := strings.Cut(strings.TrimLeft(word, "-"), "=")
		takes, known := f[name]
		if !known {
			return nil, false
		}
		if takes && !given {
			if len(args) == 0 {
				return nil, false
			}
			value, args = args[0], args[1:]
		}
		note(name, value)
	}
	return nil, true
}
