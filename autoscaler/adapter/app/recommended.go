package app

import (
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	openapicommon "k8s.io/kube-openapi/pkg/common"
	"sigs.k8s.io/custom-metrics-apiserver/pkg/apiserver"
	generatedcore "sigs.k8s.io/custom-metrics-apiserver/pkg/generated/openapi/core"
	generatedcustom "sigs.k8s.io/custom-metrics-apiserver/pkg/generated/openapi/custommetrics"
	generatedexternal "sigs.k8s.io/custom-metrics-apiserver/pkg/generated/openapi/externalmetrics"

	"supercargo.dev/supercargo/internal/platform/version"
)

// recommended returns the configuration of a generic API server for the options.
func recommended(o Options, factory informers.SharedInformerFactory) (*genericapiserver.RecommendedConfig, error) {
	config := genericapiserver.NewRecommendedConfig(apiserver.Codecs)
	config.ClientConfig, config.SharedInformerFactory = o.Config, factory
	namer := openapinamer.NewDefinitionNamer(apiserver.Scheme)
	config.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(definitions, namer)
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(definitions, namer)
	config.OpenAPIConfig.Info.Title, config.OpenAPIConfig.Info.Version = "metrics-adapter", version.Version
	config.OpenAPIV3Config.Info.Title, config.OpenAPIV3Config.Info.Version = "metrics-adapter", version.Version
	config.EnableMetrics = false // add serves /metrics, together with the metrics of the store
	return config, apply(o, config, factory)
}

// apply is the library's ApplyTo without the certificate: ApplyTo would replace ours with a
// new one for localhost.
func apply(o Options, config *genericapiserver.RecommendedConfig, factory informers.SharedInformerFactory) error {
	s := o.Server
	if err := s.SecureServing.ApplyTo(&config.SecureServing, &config.LoopbackClientConfig); err != nil {
		return err
	}
	if err := s.Authentication.ApplyTo(&config.Authentication, config.SecureServing, nil); err != nil {
		return err
	}
	if err := s.Authorization.ApplyTo(&config.Authorization); err != nil {
		return err
	}
	if err := s.Audit.ApplyTo(&config.Config); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(o.Config)
	if err != nil {
		return err
	}
	return s.Features.ApplyTo(&config.Config, client, factory)
}

// definitions returns the OpenAPI schemas of both APIs.
func definitions(ref openapicommon.ReferenceCallback) map[string]openapicommon.OpenAPIDefinition {
	all := map[string]openapicommon.OpenAPIDefinition{}
	for _, get := range []openapicommon.GetOpenAPIDefinitions{
		generatedcore.GetOpenAPIDefinitions, generatedcustom.GetOpenAPIDefinitions, generatedexternal.GetOpenAPIDefinitions,
	} {
		for name, definition := range get(ref) {
			all[name] = definition
		}
	}
	return all
}
