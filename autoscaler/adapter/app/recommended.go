package app

import (
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/informers"
	openapicommon "k8s.io/kube-openapi/pkg/common"
	"sigs.k8s.io/custom-metrics-apiserver/pkg/apiserver"
	generatedcore "sigs.k8s.io/custom-metrics-apiserver/pkg/generated/openapi/core"
	generatedcustom "sigs.k8s.io/custom-metrics-apiserver/pkg/generated/openapi/custommetrics"
	generatedexternal "sigs.k8s.io/custom-metrics-apiserver/pkg/generated/openapi/externalmetrics"

	"supercargo.dev/supercargo/internal/version"
)

// recommended returns the configuration of a generic API server for the options.
func recommended(o Options, factory informers.SharedInformerFactory) (*genericapiserver.RecommendedConfig, error) {
	config := genericapiserver.NewRecommendedConfig(apiserver.Codecs)
	config.ClientConfig, config.SharedInformerFactory = o.Config, factory
	namer := openapinamer.NewDefinitionNamer(apiserver.Scheme)
	o.Server.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(definitions, namer)
	o.Server.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(definitions, namer)
	o.Server.OpenAPIConfig.Info.Title, o.Server.OpenAPIConfig.Info.Version = "metrics-adapter", version.Version
	o.Server.OpenAPIV3Config.Info.Title, o.Server.OpenAPIV3Config.Info.Version = "metrics-adapter", version.Version
	return config, o.Server.ApplyTo(config)
}

// definitions are the schemas of both APIs.
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
