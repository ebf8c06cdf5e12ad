// Package client connects plugins to the kinds of Supercargo.
package client

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// New returns a client for the kinds of [v1alpha1], with the credentials and limits of the scheduler's configuration.
// It uses JSON, because the configuration requests Protobuf, which custom resources do not support.
func New(config *rest.Config) (rest.Interface, error) {
	known := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(known); err != nil {
		return nil, err
	}
	c := rest.CopyConfig(config)
	c.GroupVersion, c.APIPath = &v1alpha1.GroupVersion, "/apis"
	c.ContentType, c.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	c.NegotiatedSerializer = serializer.NewCodecFactory(known).WithoutConversion()
	return rest.RESTClientFor(c)
}
