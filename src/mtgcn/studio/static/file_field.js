// A file input that uploads the file as soon as it is chosen.
export default {
  template: `<label class="file">
    <b>{{ title }}</b>
    <input type="file" ref="field" :accept="accept" @change="upload">
    <span class="small soft" aria-live="polite">{{ status || hint }}</span>
  </label>`,
  props: { title: String, hint: String, accept: String },
  data: () => ({ status: "" }),
  methods: {
    upload() {
      const file = this.$refs.field.files[0];
      if (!file) { this.status = ""; return this.$emit("uploaded", null); }
      const request = new XMLHttpRequest();
      request.open("PUT", `/upload/${encodeURIComponent(file.name)}`);
      request.upload.onprogress = (event) => { this.status = `${Math.floor((100 * event.loaded) / Math.max(1, event.total))} % uploaded`; };
      request.onload = () => {
        const done = request.status === 200;
        this.status = done ? `${file.size.toLocaleString("en")} bytes, ready` : request.responseText || `refused (${request.status})`;
        this.$emit("uploaded", done ? JSON.parse(request.responseText) : null);
      };
      request.onerror = () => { this.status = "The upload failed; the file may be too large."; this.$emit("uploaded", null); };
      request.send(file);
    },
  },
};
