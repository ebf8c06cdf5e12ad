package command

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	kubeversion "k8s.io/component-base/version"

	"supercargo.dev/supercargo/internal/platform/version"
	"supercargo.dev/supercargo/internal/text/jsondoc"
)

// Versions is what `supercargo version -o json` prints.
type Versions struct {
	Supercargo string `json:"supercargo"`
	Kubernetes string `json:"kubernetes"`
	Go         string `json:"go"`
	Platform   string `json:"platform"`
}

// NewVersionCommand returns the command `version`.
func NewVersionCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of Supercargo and of the Kubernetes it is built from",
		Example: `  supercargo version
  supercargo version -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printVersions(cmd.OutOrStdout(), output, CurrentVersions())
		},
	}
	AddOutput(cmd, &output, TableOrJSON, "")
	return cmd
}

func printVersions(w io.Writer, output string, v Versions) error {
	if err := TableOrJSON.Check("output", output); err != nil {
		return BadInput(err)
	}
	if output == "json" {
		return jsondoc.Write(w, v)
	}
	_, err := fmt.Fprintf(w, "Supercargo %s\nKubernetes %s\n%s %s\n", v.Supercargo, v.Kubernetes, v.Go, v.Platform)
	return err
}

// CurrentVersions returns the versions of this program and of the Kubernetes that it is built from.
func CurrentVersions() Versions {
	return Versions{
		Supercargo: version.Version,
		Kubernetes: kubernetesVersion(),
		Go:         runtime.Version(),
		Platform:   runtime.GOOS + "/" + runtime.GOARCH,
	}
}

// kubernetesVersion returns the linked version, unless it is Kubernetes' placeholder, or else that of
// the module.
func kubernetesVersion() string {
	linked := kubeversion.Get().GitVersion
	if !strings.HasPrefix(linked, "v0.0.0-master") {
		return linked
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "k8s.io/kubernetes" {
				return module.Version
			}
		}
	}
	return "v" + kubeversion.DefaultKubeBinaryVersion
}
