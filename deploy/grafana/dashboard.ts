import {
  BigValueGraphMode,
  BigValueTextMode,
  LegendDisplayMode,
  LegendPlacement,
  ReduceDataOptionsBuilder,
  StackingConfigBuilder,
  StackingMode,
  TooltipDisplayMode,
  VizLegendOptionsBuilder,
  VizTooltipOptionsBuilder,
} from '@grafana/grafana-foundation-sdk/common';
import {
  DashboardBuilder,
  DashboardCursorSync,
  DatasourceVariableBuilder,
  QueryVariableBuilder,
  RowBuilder,
  ThresholdsConfigBuilder,
  ThresholdsMode,
  VariableRefresh,
  VariableSort,
  type Dashboard,
  type DataSourceRef,
} from '@grafana/grafana-foundation-sdk/dashboard';
import { DataqueryBuilder } from '@grafana/grafana-foundation-sdk/prometheus';
import { PanelBuilder as StatBuilder } from '@grafana/grafana-foundation-sdk/stat';
import { PanelBuilder as TimeseriesBuilder } from '@grafana/grafana-foundation-sdk/timeseries';
import { operationRows } from './operation-rows.ts';
import type { Panel, Row } from './panel.ts';
import { trafficRows } from './traffic-rows.ts';

const datasource: DataSourceRef = { type: 'prometheus', uid: '${datasource}' };

/** The rows of the dashboard, from top to bottom. */
export const rows: readonly Row[] = [...trafficRows, ...operationRows];

/** The dashboard as Grafana imports it. */
export function dashboard(): Dashboard {
  const builder = new DashboardBuilder('Envelope sidecar')
    .uid('envelope-sidecar')
    .description('Traffic, refusals, envelopes and operation of envelope-sidecar.')
    .tags(['envelope-sidecar'])
    .tooltip(DashboardCursorSync.Crosshair)
    .time({ from: 'now-3h', to: 'now' })
    .refresh('1m')
    .withVariable(new DatasourceVariableBuilder('datasource').label('Data source').type('prometheus'))
    .withVariable(labelVariable('namespace', 'Namespace', 'envelope_sidecar_build_info'))
    .withVariable(labelVariable('pod', 'Pod', 'envelope_sidecar_build_info{namespace=~"$namespace"}'))
    .withVariable(
      labelVariable('environment', 'Environment', 'envelope_sidecar_api_keys{namespace=~"$namespace", pod=~"$pod"}'),
    );
  let id = 0;
  for (const { title, panels } of rows) {
    builder.withRow(new RowBuilder(title).id(++id));
    for (const panel of panels) builder.withPanel(build(panel).id(++id));
  }
  return builder.build();
}

/** Several values or all of them. "All" includes later values of the label, and `environment="none"`. */
function labelVariable(name: string, label: string, series: string): QueryVariableBuilder {
  const builder = new QueryVariableBuilder(name);
  // oxlint-disable-next-line unicorn/no-array-sort -- this is no array
  builder.sort(VariableSort.AlphabeticalAsc);
  return builder
    .label(label)
    .datasource(datasource)
    .query({ query: `label_values(${series}, ${name})`, refId: name })
    .refresh(VariableRefresh.OnTimeRangeChanged)
    .multi(true)
    .includeAll(true)
    .allValue('.*')
    .current({ text: 'All', value: '$__all' });
}

function build(panel: Panel): StatBuilder | TimeseriesBuilder {
  const builder = panel.kind === 'stat' ? stat(panel) : timeseries(panel);
  builder.title(panel.title).description(panel.description).unit(panel.unit).datasource(datasource).min(0);
  for (const [index, [legend, expr]] of panel.queries.entries()) {
    const query = new DataqueryBuilder().refId(String.fromCodePoint(65 + index)).datasource(datasource);
    query.expr(expr).legendFormat(legend);
    builder.withTarget(panel.kind === 'stat' ? query.instant() : query.range());
  }
  return builder;
}

function stat({ warnFrom, showsLabels = false }: Panel): StatBuilder {
  const builder = new StatBuilder().height(4).span(4).graphMode(BigValueGraphMode.None);
  const steps = [{ value: null, color: 'green' }];
  builder.thresholds(
    new ThresholdsConfigBuilder()
      .mode(ThresholdsMode.Absolute)
      .steps(warnFrom === undefined ? steps : [...steps, { value: warnFrom, color: 'orange' }]),
  );
  return builder
    .reduceOptions(new ReduceDataOptionsBuilder().calcs(['lastNotNull']))
    .textMode(showsLabels ? BigValueTextMode.Name : BigValueTextMode.Auto);
}

function timeseries({ stacked = false }: Panel): TimeseriesBuilder {
  return new TimeseriesBuilder()
    .height(8)
    .span(8)
    .fillOpacity(stacked ? 30 : 10)
    .stacking(new StackingConfigBuilder().mode(stacked ? StackingMode.Normal : StackingMode.None))
    .tooltip(new VizTooltipOptionsBuilder().mode(TooltipDisplayMode.Multi))
    .legend(
      new VizLegendOptionsBuilder()
        .displayMode(LegendDisplayMode.List)
        .placement(LegendPlacement.Bottom)
        .showLegend(true),
    );
}
