package preset

// ingressNginx queries what an ingress-nginx controller exports of each Ingress.
func ingressNginx(r reader) Queries {
	namespace, ingress, service := r.object(paramNamespace), r.object(paramIngress), r.object(paramService)
	if namespace == "" {
		r.refuse(paramNamespace, "is missing: want that of the Ingress")
	}
	if ingress == "" && service == "" {
		r.refuse(paramIngress, "and service are missing: want one of them, or both")
	}
	prefix := ""
	if r.choice(paramExported, "false", "true") == "true" {
		prefix = "exported_"
	}
	of := selector{}.equal("job", r.label(paramJob)).equal(prefix+"namespace", namespace).
		equal("ingress", ingress).equal(prefix+"service", service)
	q := r.web("nginx_ingress_controller_requests", "nginx_ingress_controller_request_duration_seconds", of, `status!~"5.."`)
	q.Utilization = r.utilization(namespace)
	return q
}

// nginx queries what the nginx-exporter exports.
func nginx(r reader) Queries {
	namespace, service, job := r.object(paramNamespace), r.label(paramService), r.label(paramJob)
	of := selector{}.equal("job", job)
	q := r.web("nginx_log_requests_total", "nginx_log_request_duration_seconds", of.equal("service", service), `status!="5xx"`)
	words := []string{Connections, Little}
	if service != "" {
		words = []string{Little}
	}
	if r.choice(paramQueue, words...) == Connections {
		// Each scrape of the status page sees itself.
		q.QueueLength = "sum(clamp_min(nginx_connections_reading" + of.String() + " + nginx_connections_writing" + of.String() + " - 1, 0))"
	}
	if r.params[paramWorkload] == "" && namespace != "" {
		r.refuse(paramNamespace, "is of no use without workload")
	}
	q.Utilization = r.utilization(namespace)
	return q
}
