{{/* What the controller may do, written once for the ClusterRole and for the Role of each served namespace. */}}

{{/* No finalizers, no update of a user's spec (the requests it creates and cancels are those of a plan, the instances
those of a pool, whose owner changes with a claim) and no reading of Secrets: `patch` answers with the object, but the admission policy refuses it for any that is not ours. */}}
{{- define "efrit-operator.controllerRules" -}}
- apiGroups: ["efrit.dev"]
  resources: ["efritinstances"]
  verbs: ["get", "list", "watch", "create", "patch", "delete"]
- apiGroups: ["efrit.dev"]
  resources: ["efritplans", "efritclaims"]
  verbs: ["get", "list", "watch", "delete"]
- apiGroups: ["efrit.dev"]
  resources: ["efritpools"]
  verbs: ["list", "watch"]
- apiGroups: ["efrit.dev"]
  resources: ["efritrequests"]
  verbs: ["get", "list", "watch", "create", "patch", "delete"]
- apiGroups: ["efrit.dev"]
  resources: ["efritinstances/status", "efritrequests/status", "efritplans/status", "efritpools/status", "efritclaims/status"]
  verbs: ["patch"]
- apiGroups: ["apps"]
  resources: ["statefulsets"]
  verbs: ["list", "watch", "create", "patch"]
# Former templates of pools.
- apiGroups: ["apps"]
  resources: ["controllerrevisions"]
  verbs: ["list", "create", "delete"]
- apiGroups: [""]
  resources: ["pods"]
  verbs: ["list", "watch"]
- apiGroups: [""]
  resources: ["persistentvolumeclaims"]
  verbs: ["get", "list", "watch", "create", "patch"]
- apiGroups: [""]
  resources: ["secrets"]
  verbs: ["create", "patch"]
- apiGroups: [""]
  resources: ["serviceaccounts"]
  verbs: ["list", "create", "patch"]
- apiGroups: ["networking.k8s.io"]
  resources: ["networkpolicies"]
  verbs: ["list", "create", "patch"]
- apiGroups: ["policy"]
  resources: ["poddisruptionbudgets"]
  verbs: ["create", "patch"]
- apiGroups: [""]
  resources: ["events"]
  verbs: ["list", "create", "patch"]
{{- end -}}

{{/* Only in the controller's own namespace. RBAC cannot tie `create` to a name: the API server learns it too late. */}}
{{- define "efrit-operator.ownNamespaceRules" -}}
- apiGroups: ["coordination.k8s.io"]
  resources: ["leases"]
  verbs: ["create"]
- apiGroups: ["coordination.k8s.io"]
  resources: ["leases"]
  resourceNames: [{{ include "efrit-operator.leaseName" . | quote }}]
  verbs: ["get", "patch"]
# Whether the one that holds the lease has ended.
- apiGroups: [""]
  resources: ["pods"]
  verbs: ["list", "watch"]
- apiGroups: [""]
  resources: ["secrets"]
  verbs: ["create"]
- apiGroups: [""]
  resources: ["secrets"]
  resourceNames: [{{ include "efrit-operator.identitySecret" . | quote }}]
  verbs: ["get"]
{{- end -}}

{{- define "efrit-operator.subjects" -}}
- kind: ServiceAccount
  name: {{ include "efrit-operator.serviceAccountName" . }}
  namespace: {{ .Release.Namespace }}
{{- end -}}


{{- define "efrit-operator.mcpUserFacts" -}}
{{- $facts := list "users" "groups" "uids" -}}
{{- range .Values.mcp.userExtras }}{{ $facts = append $facts (printf "userextras/%s" .) }}{{ end -}}
{{- $facts | toJson -}}
{{- end -}}

{{/* Whom the MCP server may call as: users, not parts of Kubernetes, and service accounts. */}}
{{- define "efrit-operator.mcpCallerRules" -}}
- apiGroups: ["authentication.k8s.io"]
  resources: ["tokenreviews"]
  verbs: ["create"]
- apiGroups: ["authentication.k8s.io"]
  resources: ["serviceaccounts"]
  verbs: ["impersonate:serviceaccount"]
- apiGroups: ["authentication.k8s.io"]
  resources: {{ include "efrit-operator.mcpUserFacts" . }}
  verbs: ["impersonate:user-info"]
{{- end -}}

{{/* What the MCP server may do: in a caller's name, so that the caller has to have the right too; or itself, where each
call is checked against the caller's rights first. */}}
{{- define "efrit-operator.mcpRules" -}}
{{- $verbs := eq .Values.mcp.access "read-only" | ternary (list "get" "list" "watch") (list "get" "list" "watch" "create" "patch") -}}
- apiGroups: ["efrit.dev"]
  resources: ["efritinstances", "efritrequests", "efritplans"]
  verbs: {{ include "efrit-operator.mcpVerbs" (list . $verbs) }}
- apiGroups: ["efrit.dev"]
  resources: ["efritpools"]
  verbs: {{ include "efrit-operator.mcpVerbs" (list . (eq .Values.mcp.access "full" | ternary (list "get" "list" "patch") (list "get" "list"))) }}
# The former templates of pools. All of the namespace: RBAC knows no labels, and their names end in digests.
- apiGroups: ["apps"]
  resources: ["controllerrevisions"]
  verbs: {{ include "efrit-operator.mcpVerbs" (list . (list "list")) }}
- apiGroups: ["efrit.dev"]
  resources: ["efritclaims"]
  verbs: {{ include "efrit-operator.mcpVerbs" (list . (get (dict "read-only" (list "list") "not-destructive" (list "get" "list" "watch" "create") "full" (list "get" "list" "watch" "create" "patch")) .Values.mcp.access)) }}
{{- if eq .Values.mcp.access "full" }}
- apiGroups: ["efrit.dev"]
  resources: ["efritpools/scale"]
  verbs: {{ include "efrit-operator.mcpVerbs" (list . (list "patch")) }}
{{- end }}
{{- if .Values.mcp.longResults }}
- apiGroups: [""]
  resources: ["secrets"]
  verbs: {{ include "efrit-operator.mcpVerbs" (list . (list "get")) }}
- apiGroups: [""]
  resources: ["pods/exec"]
  verbs: {{ include "efrit-operator.mcpVerbs" (list . (list "get" "create")) }}
{{- end }}
{{- end -}}

{{- define "efrit-operator.mcpVerbs" -}}
{{- $verbs := list -}}
{{- if eq (index . 0).Values.mcp.actAs "caller" -}}
{{- range $mode := list "serviceaccount" "user-info" }}{{ range $verb := index $ 1 }}{{ $verbs = append $verbs (printf "impersonate-on:%s:%s" $mode $verb) }}{{ end }}{{ end -}}
{{- else -}}
{{- $verbs = index . 1 -}}
{{- end -}}
{{- $verbs | toJson -}}
{{- end -}}

{{- define "efrit-operator.mcpSubjects" -}}
- kind: ServiceAccount
  name: {{ include "efrit-operator.mcpName" . }}
  namespace: {{ .Release.Namespace }}
{{- end -}}
