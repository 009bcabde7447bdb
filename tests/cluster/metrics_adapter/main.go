// Serves external.metrics.k8s.io from Prometheus by the rules of prometheus-adapter: its packages, with a main of ours.
//
// The main of its last release is written against the libraries of Kubernetes 1.30. With those of the release that the
// cluster has, nearly all that is compiled here has been compiled for the API server already.
package main

import (
	"context"
	"log"
	"net/http"
	"net/url"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/metrics/pkg/apis/external_metrics"
	basecmd "sigs.k8s.io/custom-metrics-apiserver/pkg/cmd"
	"sigs.k8s.io/custom-metrics-apiserver/pkg/provider"
	"sigs.k8s.io/prometheus-adapter/pkg/client"
	"sigs.k8s.io/prometheus-adapter/pkg/config"
	external "sigs.k8s.io/prometheus-adapter/pkg/external-provider"
	"sigs.k8s.io/prometheus-adapter/pkg/naming"
)

func main() {
	adapter := &basecmd.AdapterBase{Name: "prometheus-metrics-adapter"}
	flags := adapter.Flags()
	prometheus := flags.String("prometheus-url", "", "URL of Prometheus.")
	file := flags.String("config", "", "File with the rules.")
	interval := flags.Duration("metrics-relist-interval", 10*time.Minute, "How often the metrics are listed.")
	must(flags.Parse(os.Args[1:]))

	rules, err := config.FromFile(*file)
	must(err)
	address, err := url.Parse(*prometheus)
	must(err)
	mapper, err := adapter.RESTMapper()
	must(err)
	namers, err := naming.NamersFromConfig(rules.ExternalRules, mapper)
	must(err)

	stop := genericapiserver.SetupSignalContext()
	source := client.NewClient(http.DefaultClient, address, http.Header{}, http.MethodGet)
	metrics, runner := external.NewExternalPrometheusProvider(source, namers, *interval, *interval)
	runner.RunUntil(stop.Done())
	adapter.WithExternalMetrics(withoutDeadline{metrics})
	must(adapter.Run(stop))
}

// withoutDeadline asks Prometheus without a deadline: the adapter's client sends the time left of one with its sign turned,
// which Prometheus refuses. Older libraries print a negative duration as nothing.
type withoutDeadline struct {
	provider.ExternalMetricsProvider
}

func (p withoutDeadline) GetExternalMetric(
	ctx context.Context, namespace string, selector labels.Selector, info provider.ExternalMetricInfo,
) (*external_metrics.ExternalMetricValueList, error) {
	return p.ExternalMetricsProvider.GetExternalMetric(context.WithoutCancel(ctx), namespace, selector, info)
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
