// A file that is brought to the project as soon as it is chosen, as it is: the server reads no form.
export default {
  template: `<label class="file">
    <b>{{ title }}</b>
    <input type="file" ref="field" :accept="accept" @change="bring">
    <span class="small soft" aria-live="polite">{{ told || hint }}</span>
  </label>`,
  props: { title: String, hint: String, accept: String },
  data: () => ({ told: "" }),
  methods: {
    bring() {
      const file = this.$refs.field.files[0];
      if (!file) { this.told = ""; return this.$emit("taken", null); }
      const request = new XMLHttpRequest();
      request.open("PUT", `/upload/${encodeURIComponent(file.name)}`);
      request.upload.onprogress = (event) => { this.told = `${Math.floor((100 * event.loaded) / Math.max(1, event.total))} % brought`; };
      request.onload = () => {
        const taken = request.status === 200;
        this.told = taken ? `${file.size.toLocaleString("en")} bytes, ready` : request.responseText || `refused (${request.status})`;
        this.$emit("taken", taken ? JSON.parse(request.responseText) : null);
      };
      request.onerror = () => { this.told = "The file could not be brought; it may be too large."; this.$emit("taken", null); };
      request.send(file);
    },
  },
};
