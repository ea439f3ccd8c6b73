import { render } from 'preact';
import { Frame } from './frame.tsx';
import { resume } from './session.ts';
import './style.css';

const place = document.getElementById('console');
if (place !== null) render(<Frame />, place);
await resume();
