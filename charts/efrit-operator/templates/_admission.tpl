{{/* Parts of the admission policies that more than one of them has. */}}

{{/* Called with (dict "root" $ "name" <of the policy>). A name for the whole cluster: releases of one name may live in several
namespaces. */}}
{{- define "efrit-operator.policyBinding" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ .name }}
  labels:
    {{- include "efrit-operator.labels" .root | nindent 4 }}
spec:
  policyName: {{ .name }}
  validationActions: ["Deny"]
{{- end -}}

{{- define "efrit-operator.policyName" -}}
{{- printf "%s.%s" (include "efrit-operator.fullname" .) .Release.Namespace -}}
{{- end -}}

{{- define "efrit-operator.policyUser" -}}
{{- printf "system:serviceaccount:%s:%s" .Release.Namespace (include "efrit-operator.serviceAccountName" .) -}}
{{- end -}}

{{/* `secrets`: all names of Secrets that a pod uses, from the variables `volumes`, `env`, `envFrom` and `pullSecrets`. */}}
{{- define "efrit-operator.secretVariables" -}}
- name: projected
  expression: variables.volumes.filter(v, has(v.projected) && v.projected.?sources.orValue([]).exists(s, has(s.secret)))
- name: secrets
  expression: >-
    variables.volumes.filter(v, has(v.secret)).map(v, v.secret.?secretName.orValue("")) +
    variables.volumes.filter(v, has(v.csi) && has(v.csi.nodePublishSecretRef)).map(v, v.csi.nodePublishSecretRef.name) +
    (variables.projected.size() == 0 ? [] :
    variables.projected[0].projected.sources.filter(s, has(s.secret)).map(s, s.secret.name)) +
    variables.env.filter(e, has(e.valueFrom) && has(e.valueFrom.secretKeyRef)).map(e, e.valueFrom.secretKeyRef.name) +
    variables.envFrom.filter(e, has(e.secretRef)).map(e, e.secretRef.name) +
    variables.pullSecrets.map(s, s.name)
{{- end -}}

{{/* That whoever writes may `use` what the variable `used` lists. One check costs more than a third of what an expression may. */}}
{{- define "efrit-operator.useValidations" -}}
- expression: variables.projected.size() <= 1
  message: At most one projected volume may hold Secrets.
- expression: variables.used.size() <= 16
  message: At most 16 references to Secrets are checked.
{{- range $i := until 16 }}
- expression: >-
    variables.used.size() <= {{ $i }} || authorizer.group("").resource("secrets").namespace(request.namespace)
    .name(variables.used[{{ $i }}]).check("use").allowed()
  messageExpression: '"Secret " + variables.used[{{ $i }}] + ": " + request.userInfo.username + " needs the verb use on it, by a Role."'
{{- end }}
{{- end -}}

{{/* Version of the API by which the requester is noted; empty where it is not. `helm lint` and `helm template` ask no API server: there
the version of Kubernetes decides, if the value says true. */}}
{{- define "efrit-operator.requesterApi" -}}
{{- $value := toString .Values.pools.requester -}}
{{- $api := "" -}}
{{- range $version := list "v1beta1" "v1" -}}
{{- if $.Capabilities.APIVersions.Has (printf "admissionregistration.k8s.io/%s/MutatingAdmissionPolicy" $version) -}}
{{- $api = printf "admissionregistration.k8s.io/%s" $version -}}
{{- end -}}
{{- end -}}
{{- if eq $value "true" -}}
{{- if and (not $api) (semverCompare ">=1.36.0-0" .Capabilities.KubeVersion.Version) -}}
{{- $api = "admissionregistration.k8s.io/v1" -}}
{{- end -}}
{{- if not $api -}}
{{- fail (printf "pools.requester=true needs MutatingAdmissionPolicies, which Kubernetes %s does not serve: they are part of 1.36, and of 1.34 and 1.35 where the API server has admissionregistration.k8s.io/v1beta1 and the feature gate MutatingAdmissionPolicy turned on. Leave the value out, or set it to false." .Capabilities.KubeVersion.Version) -}}
{{- end -}}
{{- $api -}}
{{- else if and (eq $value "auto") .Values.admissionPolicy.enabled (not .Values.watchNamespaces) -}}
{{- $api -}}
{{- end -}}
{{- end -}}
