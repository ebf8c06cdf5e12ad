{{/* supercargo.image is the image of a program: (dict "root" $ "name" "autoscaler" "image" .Values.autoscaler.image). */}}
{{- define "supercargo.image" -}}
{{- if not (or .image.repository .root.Values.image.repository) -}}
{{- fail "image.repository is required: the registry and folder that your images were pushed to, such as registry.example/supercargo" -}}
{{- end -}}
{{- $repository := .image.repository | default (printf "%s/%s" .root.Values.image.repository .name) -}}
{{- $tag := .image.tag | default .root.Values.image.tag | default (printf "v%s" .root.Chart.AppVersion) -}}
{{- printf "%s:%s" $repository $tag -}}{{- with .image.digest }}@{{ . }}{{ end -}}
{{- end -}}

{{/* supercargo.schedulerImage is kube-scheduler's, for the version of Kubernetes that is set. A tag or digest of its own is taken as it is. */}}
{{- define "supercargo.schedulerImage" -}}
{{- $image := .Values.scheduler.image -}}
{{- if not (or $image.tag $image.digest) -}}
{{- $version := .Values.scheduler.kubernetes -}}
{{- $tag := .Values.image.tag | default (printf "v%s" .Chart.AppVersion) -}}
{{- if ne $version "1.35" -}}{{- $tag = printf "%s-kubernetes%s" $tag $version -}}{{- end -}}
{{- $image = dict "repository" $image.repository "tag" $tag "digest" (get .Values.scheduler.digests $version) -}}
{{- end -}}
{{- include "supercargo.image" (dict "root" . "name" "kube-scheduler" "image" $image) -}}
{{- end }}

{{/*
supercargo.args are all arguments of a program: first those that the chart gives it, then the
options of the user, by name: (dict "own" (list "--a=b") "options" .Values.autoscaler.options).
Helm reads numbers as floats, which print as 1.2e+09; as JSON they print as they were written.
*/}}
{{- define "supercargo.args" -}}
{{- $args := .own -}}
{{- range $flag, $value := .options -}}
{{- $text := toJson $value -}}
{{- if kindIs "slice" $value -}}
{{- $text = join "," $value -}}
{{- else if kindIs "string" $value -}}
{{- $text = $value -}}
{{- end -}}
{{- $args = append $args (printf "--%s=%s" $flag $text) -}}
{{- end -}}
{{- toYaml $args -}}
{{- end -}}

{{/* supercargo.actions are the actions of a program that are enabled, with commas: (dict "values" .Values.autoscaler "actions" (list "machines")). */}}
{{- define "supercargo.actions" -}}
{{- $enabled := list -}}
{{- range .actions -}}
{{- if (get $.values .).enabled -}}
{{- $enabled = append $enabled . -}}
{{- end -}}
{{- end -}}
{{- join "," $enabled -}}
{{- end -}}

{{/* supercargo.probeNamespace is where probes run and what was learned is kept. */}}
{{- define "supercargo.probeNamespace" -}}
{{- get .Values.descheduler.options "probe-namespace" | default "supercargo-probing" -}}
{{- end -}}

{{/* supercargo.podMetadata are the labels and annotations of a pod: (dict "name" "supercargo-autoscaler" "values" .Values.autoscaler). */}}
{{- define "supercargo.podMetadata" -}}
labels:
  app.kubernetes.io/name: {{ .name }}
  {{- with .values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- $annotations := merge dict .values.podAnnotations (.annotations | default dict) }}
{{- with $annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* supercargo.placement renders where pods run, and with what priority: (dict "root" $ "name" "supercargo-autoscaler" "values" .Values.autoscaler). */}}
{{- define "supercargo.placement" -}}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if kindIs "slice" .values.topologySpreadConstraints }}
{{- with .values.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- else if hasKey .values "replicas" }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        app.kubernetes.io/name: {{ .name }}
{{- end }}
{{- end -}}

{{/* supercargo.unprivileged is the security context of pods that need nothing of their node. */}}
{{- define "supercargo.unprivileged" -}}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile:
    type: RuntimeDefault
{{- end -}}

{{/* supercargo.confined is the security context of their containers. */}}
{{- define "supercargo.confined" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end -}}

{{/* supercargo.self tells a program its pod, which has the Events that concern the program alone. */}}
{{- define "supercargo.self" -}}
- {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
- {name: POD_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
- {name: POD_UID, valueFrom: {fieldRef: {fieldPath: metadata.uid}}}
{{- end -}}

{{/* supercargo.disruption is a PodDisruptionBudget: (dict "name" "supercargo-autoscaler" "namespace" .Release.Namespace "values" .Values.autoscaler). */}}
{{- define "supercargo.disruption" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  labels: {app.kubernetes.io/name: {{ .name }}, app.kubernetes.io/part-of: supercargo}
  name: {{ .name }}
  namespace: {{ .namespace }}
spec:
  maxUnavailable: {{ .values.podDisruptionBudget.maxUnavailable }}
  selector:
    matchLabels:
      app.kubernetes.io/name: {{ .name }}
{{- end -}}

{{/* supercargo.schedulerConfig is the KubeSchedulerConfiguration of the second scheduler. */}}
{{- define "supercargo.schedulerConfig" -}}
{{- .Values.scheduler.second.configuration | default (.Files.Get "scheduler/second-scheduler.yaml") | trim -}}
{{- end -}}

{{/* supercargo.schedulerConfigMap is its ConfigMap. The name has a hash of the content, so that a change rolls the Deployment. */}}
{{- define "supercargo.schedulerConfigMap" -}}
{{- .Values.scheduler.second.existingConfigMap | default (printf "supercargo-scheduler-config-%s" (include "supercargo.schedulerConfig" . | sha256sum | trunc 10)) -}}
{{- end -}}

{{/* supercargo.meterTokenMount and supercargo.meterToken are the token that node meters are shown. It is good for nothing else: a client that controls a node can read it. */}}
{{- define "supercargo.meterTokenMount" -}}
- {name: node-meter-token, mountPath: /var/run/secrets/supercargo.dev/node-meter, readOnly: true}
{{- end -}}
{{- define "supercargo.meterToken" -}}
- name: node-meter-token
  projected:
    sources:
      - serviceAccountToken: {audience: node-meter.supercargo.dev, path: token}
{{- end -}}
