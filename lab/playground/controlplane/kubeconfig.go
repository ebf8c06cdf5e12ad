package controlplane

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// contextName names the single cluster, user and context of a playground's kubeconfig, and
// identifies such a file.
const contextName = "supercargo-playground"

// writeKubeconfig writes the administrator's kubeconfig for server.
func (s *Directory) writeKubeconfig(server string, c *certs) error {
	config := clientcmdapi.NewConfig()
	config.Clusters[contextName] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: c.ca.cert}
	config.AuthInfos[contextName] = &clientcmdapi.AuthInfo{ClientCertificateData: c.admin.cert, ClientKeyData: c.admin.key}
	config.Contexts[contextName] = &clientcmdapi.Context{Cluster: contextName, AuthInfo: contextName}
	config.CurrentContext = contextName
	data, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("encode kubeconfig: %w", err)
	}
	if err := WriteFile(s.kubeconfig, data); err != nil {
		return err
	}
	s.written = data
	return nil
}

// placeKubeconfig sets the path of the kubeconfig.
func (s *Directory) placeKubeconfig(path string) error {
	s.kubeconfig = filepath.Join(s.dir, "kubeconfig")
	if path == "" {
		return nil // the directory belongs to the playground
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("find kubeconfig %s: %w", path, err)
	}
	if info, err := os.Stat(filepath.Dir(abs)); err != nil || !info.IsDir() {
		return fmt.Errorf("write kubeconfig %s: directory %s does not exist", path, filepath.Dir(abs))
	}
	s.kubeconfig = abs
	return checkReplaceable(abs)
}

// checkReplaceable returns an error if path has a kubeconfig that is not a playground's.
func checkReplaceable(path string) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(data) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("check kubeconfig: %w", err)
	}
	config, err := clientcmd.Load(data)
	if err == nil && len(config.Clusters) == 1 && config.Clusters[contextName] != nil {
		return nil
	}
	return fmt.Errorf("write kubeconfig %s: the file exists and is not a playground's kubeconfig; remove it or use another path", path)
}

// removeKubeconfig removes the kubeconfig, unless another has been written in its place.
func (s *Directory) removeKubeconfig() error {
	if s.written == nil {
		return nil
	}
	data, err := os.ReadFile(s.kubeconfig)
	if err != nil || !bytes.Equal(data, s.written) {
		return nil
	}
	return os.Remove(s.kubeconfig)
}
