//go:build linux

package cluster

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/certificate/csr"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

// kubeletPort is the port of a kubelet's API, on the address of its node.
const kubeletPort = 10250

// writeKubeletConfig writes the configuration of the kubelet.
func (n *Node) writeKubeletConfig() error {
	ca := filepath.Join(n.Dir, "pki", "ca.crt")
	resolv := filepath.Join(n.Dir, "resolv.conf")
	config := n.kubeletConfig(ca, resolv)
	data, err := yaml.Marshal(config)
	if err != nil {
		return fmt.Errorf("configure kubelet of node %s: %w", n.Name, err)
	}
	for path, content := range map[string][]byte{
		n.kubeletConfigPath(): data,
		ca:                    n.cluster.config.CAData,
		resolv:                nil, // no name resolution: no packet leaves the machine
	} {
		if err := writeFile(path, content); err != nil {
			return fmt.Errorf("configure kubelet of node %s: %w", n.Name, err)
		}
	}
	return nil
}

func (n *Node) kubeletConfigPath() string { return filepath.Join(n.Dir, "kubelet.yaml") }

func (n *Node) kubeletConfig(ca, resolv string) *kubeletconfig.KubeletConfiguration {
	seconds := func(s int) metav1.Duration { return metav1.Duration{Duration: time.Duration(s) * time.Second} }
	return &kubeletconfig.KubeletConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: kubeletconfig.SchemeGroupVersion.String(), Kind: "KubeletConfiguration"},
		Address:  "0.0.0.0",
		Port:     kubeletPort,
		Authentication: kubeletconfig.KubeletAuthentication{
			Anonymous: kubeletconfig.KubeletAnonymousAuthentication{Enabled: ptr.To(false)},
			Webhook:   kubeletconfig.KubeletWebhookAuthentication{Enabled: ptr.To(true)},
			X509:      kubeletconfig.KubeletX509Authentication{ClientCAFile: ca},
		},
		Authorization:             kubeletconfig.KubeletAuthorization{Mode: kubeletconfig.KubeletAuthorizationModeWebhook},
		ContainerRuntimeEndpoint:  "unix://" + n.ContainerdSocket,
		PodLogsDir:                n.PodLogs,
		VolumePluginDir:           filepath.Join(n.Dir, "volumeplugins"),
		ResolverConfig:            &resolv,
		SyncFrequency:             seconds(10),
		NodeStatusUpdateFrequency: seconds(5),

		CgroupDriver: "cgroupfs",
		CgroupRoot:   n.CgroupRoot,
		// Without node allocatable enforcement, the kubelet sets up nothing in the control groups above ours.
		EnforceNodeAllocatable: []string{"none"},
		FailCgroupV1:           ptr.To(false),
		FailSwapOn:             ptr.To(false),
		OOMScoreAdj:            ptr.To[int32](0), // a lower value needs a capability that root may lack
		MakeIPTablesUtilChains: ptr.To(false),    // no kube-proxy uses them

		// A full disk of the machine must not evict pods or remove images.
		EvictionHard:                map[string]string{"memory.available": "100Mi"},
		ImageGCHighThresholdPercent: ptr.To[int32](100),
	}
}

// writeKubeconfig writes the kubeconfig of the node's kubelet.
func (n *Node) writeKubeconfig(ctx context.Context) error {
	data, err := KubeletKubeconfig(ctx, n.cluster.config, n.cluster.client, n.Name)
	if err != nil {
		return err
	}
	return writeFile(n.Kubeconfig, data)
}

// KubeletKubeconfig requests a certificate for a node from the API server, as kubelet bootstrapping does, and
// returns a kubeconfig with it.
func KubeletKubeconfig(ctx context.Context, api *rest.Config, client kubernetes.Interface, node string) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key for node %s: %w", node, err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("make a key for node %s: %w", node, err)
	}
	cert, err := issue(ctx, client, key, "system:node:"+node)
	if err != nil {
		return nil, fmt.Errorf("issue a certificate to node %s: %w", node, err)
	}
	const name = "node"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: api.Host, CertificateAuthorityData: api.CAData}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{
		ClientCertificateData: cert,
		ClientKeyData:         pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}),
	}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	data, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("write the kubeconfig of node %s: %w", node, err)
	}
	return data, nil
}

// issue requests a client certificate of a node. The controller manager approves requests of an
// administrator.
func issue(ctx context.Context, client kubernetes.Interface, key *ecdsa.PrivateKey, user string) ([]byte, error) {
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: user, Organization: []string{"system:nodes"}},
	}, key)
	if err != nil {
		return nil, err
	}
	name, uid, err := csr.RequestCertificateWithContext(ctx, client,
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request}), "",
		certificatesv1.KubeAPIServerClientKubeletSignerName, nil,
		[]certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}, key)
	if err != nil {
		return nil, err
	}
	return csr.WaitForCertificate(ctx, client, name, uid)
}

// waitJoined waits until the kubelet has reported after since, and the node accepts pods.
func (n *Node) waitJoined(ctx context.Context, since time.Time) error {
	return n.poll(ctx, n.kubelet, func(ctx context.Context) error {
		lease, err := n.cluster.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, n.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if lease.Spec.RenewTime == nil || lease.Spec.RenewTime.Time.Before(since) {
			return errors.New("its kubelet has not reported yet")
		}
		node, err := n.cluster.client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return takesPods(node, since)
	})
}

// takesPods returns an error if the node does not accept pods, or its kubelet has not reported after since.
func takesPods(node *corev1.Node, since time.Time) error {
	for _, taint := range node.Spec.Taints {
		if taint.Key == corev1.TaintNodeNotReady || taint.Key == corev1.TaintNodeUnreachable {
			return errors.New("it has the taint " + taint.Key)
		}
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type != corev1.NodeReady {
			continue
		}
		// Heartbeats have a resolution of one second.
		if condition.LastHeartbeatTime.Time.Before(since.Truncate(time.Second)) {
			return errors.New("its kubelet has not reported how it is yet")
		}
		if condition.Status != corev1.ConditionTrue {
			return errors.New("it is not ready: " + condition.Message)
		}
		return nil
	}
	return errors.New("it has no condition Ready")
}
