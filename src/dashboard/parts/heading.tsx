// The name of a page: its heading and the title of the window. After a change of the page the focus is there, so that screen
// readers say where one is.
import { useEffect } from 'preact/hooks';

export function Heading({ text }: { text: string }) {
  useEffect(() => {
    document.title = `${text} - Beatkeeper`;
  }, [text]);
  return <h1>{text}</h1>;
}
