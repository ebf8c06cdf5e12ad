package operator

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
)

func TestAProgramRunsWithTheClusterOfItsKubeconfig(t *testing.T) {
	var config *rest.Config
	var log logr.Logger
	ran := false
	err := Main(filepath.Join(t.TempDir(), "none"), &config, &log, func(context.Context) error {
		ran = true
		return nil
	})
	if err == nil || ran {
		t.Errorf("without its kubeconfig it runs: %v, error %v", ran, err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: "https://there:6443"}}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	err = Main(file, &config, &log, func(ctx context.Context) error {
		ran = true
		if config.Host != "https://there:6443" || config.QPS == 0 || log.GetSink() == nil || ctx.Err() != nil {
			t.Errorf("it runs with host %s, QPS %v and context error %v", config.Host, config.QPS, ctx.Err())
		}
		return nil
	})
	if err != nil || !ran {
		t.Errorf("with its kubeconfig it runs: %v, error %v", ran, err)
	}
}
