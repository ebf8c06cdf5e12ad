package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	kubeversion "k8s.io/component-base/version"
)

// version is Supercargo's version. The linker sets it:
// -X supercargo.dev/supercargo/internal/cli.version=v0.1.0
var version string

// versions is what `supercargo version -o json` prints.
type versions struct {
	Supercargo string `json:"supercargo"`
	Kubernetes string `json:"kubernetes"`
	Go         string `json:"go"`
	Platform   string `json:"platform"`
}

func newVersionCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of Supercargo and of the Kubernetes it is built from",
		Example: `  supercargo version
  supercargo version -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printVersions(cmd.OutOrStdout(), output, currentVersions())
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "how to print: text or json")
	return cmd
}

func printVersions(w io.Writer, output string, v versions) error {
	switch output {
	case "text":
		_, err := fmt.Fprintf(w, "Supercargo %s\nKubernetes %s\n%s %s\n", v.Supercargo, v.Kubernetes, v.Go, v.Platform)
		return err
	case "json":
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(v)
	default:
		return badInput(fmt.Errorf("--output %q: want text or json", output))
	}
}

func currentVersions() versions {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return versions{
		Supercargo: supercargoVersion(info),
		Kubernetes: kubernetesVersion(info),
		Go:         runtime.Version(),
		Platform:   runtime.GOOS + "/" + runtime.GOARCH,
	}
}

// supercargoVersion is the linked version, else the one the module was
// downloaded with, if it was.
func supercargoVersion(info *debug.BuildInfo) string {
	switch {
	case version != "":
		return version
	case info.Main.Version != "":
		return info.Main.Version
	default:
		return "(devel)"
	}
}

// kubernetesVersion is the linked version, else that of the module. The
// placeholder that Kubernetes carries when it is not linked says nothing.
func kubernetesVersion(info *debug.BuildInfo) string {
	linked := kubeversion.Get().GitVersion
	if !strings.HasPrefix(linked, "v0.0.0-master") {
		return linked
	}
	for _, module := range info.Deps {
		if module.Path == "k8s.io/kubernetes" {
			return module.Version
		}
	}
	return "v" + kubeversion.DefaultKubeBinaryVersion
}
