import { useSignal } from '@preact/signals';
import { texts } from '../texts.ts';

/** A button that copies text and then confirms the copy. */
export function Copy({ text, label = texts.copy, of }: { text: string; label?: string; of?: string }) {
  const copied = useSignal(false);
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      return; // The text can be selected and copied by hand.
    }
    copied.value = true;
    setTimeout(() => {
      copied.value = false;
    }, 2_000);
  };
  return (
    <button
      type="button"
      class="small"
      aria-label={of === undefined ? undefined : `${label}: ${of}`}
      onClick={() => void copy()}
    >
      <span aria-live="polite">{copied.value ? texts.copied : label}</span>
    </button>
  );
}

/** A secret that is shown only once. */
export function Secret({ label, value, hint }: { label: string; value: string; hint?: string }) {
  return (
    <div class="secret">
      <div class="row between">
        <span class="label">{label}</span>
        {hint !== undefined && <span class="hint">{hint}</span>}
      </div>
      <div class="row">
        <code class="grow">{value}</code>
        <Copy text={value} of={label} />
      </div>
    </div>
  );
}
