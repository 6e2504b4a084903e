{{/*
Copyright The plumbline authors
SPDX-License-Identifier: Apache-2.0
*/}}

{{/* Labels that never change: they select the agent's pods. */}}
{{- define "plumbline.selector" -}}
app.kubernetes.io/name: plumbline
app.kubernetes.io/component: agent
{{- end }}

{{/* The same of agents that serve nothing: both may be in one cluster. */}}
{{- define "plumbline.observerSelector" -}}
app.kubernetes.io/name: plumbline
app.kubernetes.io/component: observer
{{- end }}

{{/* And of the program that runs once in a cluster. */}}
{{- define "plumbline.operatorSelector" -}}
app.kubernetes.io/name: plumbline
app.kubernetes.io/component: operator
{{- end }}

{{/* Labels of every object but the pods, which keep theirs across upgrades. */}}
{{- define "plumbline.labels" -}}
app.kubernetes.io/name: plumbline
app.kubernetes.io/part-of: plumbline
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "plumbline.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end }}

{{/*
The drivers this release serves, as a JSON object of driver name to node
selector. gpu.nvidia.com is another's while its mode is external.
*/}}
{{- define "plumbline.drivers" -}}
{{- $served := dict -}}
{{- with .Values.drivers -}}
{{- if .net.enabled }}{{ $_ := set $served "dra.net" .net.nodeSelector }}{{ end -}}
{{- if .cpu.enabled }}{{ $_ := set $served "dra.cpu" .cpu.nodeSelector }}{{ end -}}
{{- if ne .gpu.mode "external" }}{{ $_ := set $served "gpu.nvidia.com" .gpu.nodeSelector }}{{ end -}}
{{- end -}}
{{- if not $served }}{{ fail "drivers: none is served: enable drivers.net or drivers.cpu, or set drivers.gpu.mode to simulated" }}{{ end -}}
{{- toJson $served -}}
{{- end }}

{{/* A node selector as "key=value,key=value", sorted by key. */}}
{{- define "plumbline.selectorText" -}}
{{- $pairs := list -}}
{{- range $key, $value := . }}{{ $pairs = append $pairs (printf "%s=%s" $key $value) }}{{ end -}}
{{- join "," $pairs -}}
{{- end }}

{{/*
Probes of a program, by its name. Ready or not, with the reason. Asking starts a
program in the container, which costs more than an idle agent does otherwise: often
only until it is ready for the first time. No liveness probe on the same answer: an
agent that waits for NRI or the API server gains nothing from being killed, so that
its start may take a day.
*/}}
{{- define "plumbline.probes" -}}
startupProbe:
  exec:
    command: [{{ . }}, healthz]
  periodSeconds: 2
  timeoutSeconds: 5
  failureThreshold: 43200
readinessProbe:
  exec:
    command: [{{ . }}, healthz]
  periodSeconds: 30
  timeoutSeconds: 5
  failureThreshold: 2
{{- end }}

{{/* The API server's address, where it is not the Service's. */}}
{{- define "plumbline.apiServerEnv" -}}
{{- with .Values.apiServer -}}
{{- if or .host .port -}}
env:
  {{- with .host }}
  - name: KUBERNETES_SERVICE_HOST
    value: {{ . | quote }}
  {{- end }}
  {{- with .port }}
  - name: KUBERNETES_SERVICE_PORT
    value: {{ . | quote }}
  {{- end }}
{{- end -}}
{{- end -}}
{{- end }}

{{/*
The values of the operator. A release that was installed before there was one, and is
upgraded with the values it had (helm upgrade --reuse-values), has them under explainer.
*/}}
{{- define "plumbline.operator" -}}
{{- $given := .Values.operator | default (dict "enabled" .Values.explainer.enabled "replicas" 2) -}}
{{- $older := pick .Values.explainer "nodeSelector" "tolerations" "resources" -}}
{{- $labels := .Values.nodeLabels | default (dict "enabled" true) -}}
{{- mergeOverwrite (deepCopy $given) $older (dict "labels" $labels.enabled) | toJson -}}
{{- end }}

{{/* How often hosts are looked at; releases of an older chart have no such value. */}}
{{- define "plumbline.hostReportInterval" -}}
{{- (.Values.hostReport | default (dict "interval" "1m")).interval -}}
{{- end }}

{{/*
The nodes that get an agent, of a pod's specification.
*/}}
{{- define "plumbline.placement" -}}
{{- $drivers := include "plumbline.drivers" . | fromJson }}
{{- $everywhere := false }}
{{- range $drivers }}{{ if not . }}{{ $everywhere = true }}{{ end }}{{ end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if or (not $everywhere) .Values.nodeMatchExpressions }}
affinity:
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms:
        {{- if $everywhere }}
        - matchExpressions:
            {{- toYaml .Values.nodeMatchExpressions | nindent 12 }}
        {{- else }}
        # Nodes that at least one driver wants; the agent knows which.
        {{- range $driver, $selector := $drivers }}
        # {{ $driver }}
        - matchExpressions:
            {{- with $.Values.nodeMatchExpressions }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
            {{- range $key, $value := $selector }}
            - key: {{ $key }}
              operator: In
              values: [{{ $value | quote }}]
            {{- end }}
        {{- end }}
        {{- end }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
