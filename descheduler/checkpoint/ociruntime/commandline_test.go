package ociruntime

import (
	"reflect"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	globals := []string{"--root", "/r", "--log", "/l.json", "--log-format", "json"}
	tests := []struct {
		name, line string
		want       Call
	}{
		{"create as containerd calls it", "--root /r --log /l.json --log-format json create --bundle /b --pid-file /b/init.pid c1",
			Call{Globals: globals, Command: "create", ID: "c1", Root: "/r", Bundle: "/b", PIDFile: "/b/init.pid", Log: "/l.json", LogFormat: "json"}},
		{"values behind an equals sign", "--root=/r create --bundle=/b --pid-file=/p c1",
			Call{Globals: []string{"--root=/r"}, Command: "create", ID: "c1", Root: "/r", Bundle: "/b", PIDFile: "/p"}},
		{"a switch before the command", "--systemd-cgroup create -b /b c1",
			Call{Globals: []string{"--systemd-cgroup"}, Command: "create", ID: "c1", Bundle: "/b"}},
		{"a terminal and no pivot", "create --no-pivot --console-socket /s --no-new-keyring --preserve-fds 2 c1",
			Call{Globals: []string{}, Command: "create", ID: "c1", ConsoleSocket: "/s", NoPivot: true}},
		{"a switch that is off", "create --no-pivot=false c1", Call{Globals: []string{}, Command: "create", ID: "c1"}},
		{"a value that looks like a command", "--root create start c1",
			Call{Globals: []string{"--root", "create"}, Command: "start", ID: "c1", Root: "create"}},
		{"start", "--root /r start c1", Call{Globals: []string{"--root", "/r"}, Command: "start", ID: "c1", Root: "/r"}},
		{"exec with flags of its own", "--root /r exec --process /p.json --detach c1",
			Call{Globals: []string{"--root", "/r"}, Command: "exec", Root: "/r"}},
		{"kill", "kill c1 9", Call{Globals: []string{}, Command: "kill"}},
		{"the version", "--version", Call{Globals: []string{"--version"}}},
		{"nothing", "", Call{Globals: []string{}}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got, ok := Parse(strings.Fields(tc.line))
			if !ok || !reflect.DeepEqual(got, tc.want) {
				t.Errorf("Parse(%q) = %+v, %v; want %+v", tc.line, got, ok, tc.want)
			}
		})
	}
}

func TestWhatOnlyRuncCanReadIsNotGuessed(t *testing.T) {
	for _, line := range []string{
		"--new-flag value create c1", "create --new-flag value c1", "--root", "create --bundle", "create", "create c1 c2", "start", "start --later c1",
	} {
		if got, ok := Parse(strings.Fields(line)); ok {
			t.Errorf("Parse(%q) = %+v, want none", line, got)
		}
	}
}
